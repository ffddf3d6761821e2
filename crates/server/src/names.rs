//! Names of users and roles: a name and the database in which it was created.

use std::fmt;

use nagi_bson::{ArrayWriter, DocWriter, Value};
use nagi_error::{Code, Result, bail};

/// The database of users that are not stored with a password.
pub(crate) const EXTERNAL: &str = "$external";

/// A name in a database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Named {
    pub(crate) db: Box<str>,
    pub(crate) name: Box<str>,
}

pub(crate) type UserName = Named;
pub(crate) type RoleName = Named;

impl Named {
    pub(crate) fn new(name: &str, db: &str) -> Named {
        Named { db: db.into(), name: name.into() }
    }

    /// The `_id` of its document.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    /// Writes `{user: name, db: db}`, or with `role`.
    pub(crate) fn write(&self, field: &str, out: &mut DocWriter<'_>) {
        out.put(field, &*self.name);
        out.put("db", &*self.db);
    }

    /// Reads `"name"` (in `db`) or `{user: name, db: db}`; `field` is "user" or "role".
    pub(crate) fn parse(value: Value<'_>, field: &str, db: &str) -> Result<Named> {
        let Value::Doc(doc) = value else {
            return match value {
                Value::String(name) => Ok(Named::new(name, db)),
                _ => {
                    bail!(Code::BAD_VALUE, "User and role names must be either strings or objects")
                }
            };
        };
        let text = |name: &str| match doc.get(name) {
            Value::String(text) => Ok(text),
            Value::Missing => bail!(Code::NO_SUCH_KEY, "Missing expected field \"{name}\""),
            other => bail!(
                Code::TYPE_MISMATCH,
                "\"{name}\" had the wrong type. Expected string, found {}",
                other.kind().name()
            ),
        };
        Ok(Named::new(text(field)?, text("db")?))
    }
}

/// `name@db`, the form in messages.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.db)
    }
}

/// Writes `[{role, db}, ...]`.
pub(crate) fn write_roles<'r>(
    roles: impl IntoIterator<Item = &'r RoleName>,
    out: &mut ArrayWriter<'_>,
) {
    for role in roles {
        out.doc(|doc| role.write("role", doc));
    }
}

/// Reads an array of roles, each `"name"` or `{role, db}`, and removes duplicates.
pub(crate) fn parse_roles(values: nagi_bson::Array<'_>, db: &str) -> Result<Vec<RoleName>> {
    let mut roles = Vec::new();
    for value in values.iter() {
        roles.push(RoleName::parse(value, "role", db)?);
    }
    roles.sort_unstable();
    roles.dedup();
    Ok(roles)
}
