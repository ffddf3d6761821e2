//! `rolesInfo`: the roles and privileges that roles contain.

use crate::args::Field;
use crate::auth::documents::{self, Kind};
use crate::auth::roles::{self, Closure};
use crate::core::command::prelude::*;
use crate::{
    auth::{Privileges, builtin, users, write_privileges, write_roles},
    names::RoleName,
};

pub(in crate::commands) static ROLES_INFO: Command = Command {
    facts: Facts { name: "rolesInfo", help: "Describes roles.", ..Facts::ROW },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "rolesInfo" => Args {
    which:             Value<'a>    = "rolesInfo",
    show_privileges:   Option<PrivilegeFormat> = "showPrivileges",
    show_builtin:      Option<bool> = "showBuiltinRoles",
    show_restrictions: Option<bool> = "showAuthenticationRestrictions",
}}

/// The form in which privileges are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrivilegeFormat {
    Omitted,
    Shown,
    /// As part of a user document with these roles.
    UserFragment,
}

impl<'a> FromArg<'a> for PrivilegeFormat {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::String("asUserFragment") => Ok(PrivilegeFormat::UserFragment),
            Value::String(other) => bail!(
                Code::BAD_VALUE,
                "Failed to parse 'showPrivileges'. 'showPrivileges' should either be a boolean or the string \
                 'asUserFragment', given value: '{other}'"
            ),
            value => Ok(match bool::from_value(value, field)? {
                true => PrivilegeFormat::Shown,
                false => PrivilegeFormat::Omitted,
            }),
        }
    }
}

/// The requested names; `None` for all roles of the database.
fn names(value: Value<'_>, db: &str) -> Result<Option<Vec<RoleName>>> {
    match value {
        Value::Array(list) => {
            let names = list.iter().map(|name| RoleName::parse(name, "role", db));
            names.collect::<Result<_>>().map(Some)
        }
        value if crate::number::truncate(value) == Some(1) => Ok(None),
        value => Ok(Some(vec![RoleName::parse(value, "role", db)?])),
    }
}

/// Each user may view its own roles.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let may = |db: &str| asking.on_database(db, Action::ViewRole);
    Ok(match names(Args::parse(req)?.which, req.db)? {
        None => may(req.db),
        Some(names) => names.iter().all(|role| {
            asking.user.is_some_and(|user| user.closure.roles.contains(role)) || may(&role.db)
        }),
    })
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let asked = names(args.which, req.db)?;
    if args.show_privileges == Some(PrivilegeFormat::UserFragment) {
        let Some(asked) = asked else {
            bail!(Code::ILLEGAL_OPERATION, "Cannot get user fragment for all roles in a database");
        };
        return write_fragment(cx, &asked, out);
    }
    let wanted = match asked {
        Some(names) => names,
        None => in_database(cx, &args, req.db)?,
    };
    let mut described = Vec::new();
    for role in &wanted {
        if let Some(doc) = describe(cx, &args, role)? {
            described.push(doc);
        }
    }
    out.array("roles", |list| described.iter().for_each(|doc| list.push_doc(doc.as_doc())));
    Ok(())
}

/// Writes the fields that a user with exactly these roles would have.
fn write_fragment(cx: &Context<'_>, asked: &[RoleName], out: &mut DocWriter<'_>) -> Result<()> {
    let all = roles::closure(&cx.connection.store, asked)?;
    out.doc("userFragment", |doc| {
        doc.array("roles", |list| write_roles(asked, list));
        doc.array("inheritedRoles", |list| write_roles(&all.roles, list));
        doc.array("inheritedPrivileges", |list| write_privileges(&all.privileges, list));
        doc.array("inheritedAuthenticationRestrictions", |_| ());
    });
    Ok(())
}

/// The roles of a database, including built-in ones if they are requested.
fn in_database(cx: &Context<'_>, args: &Args<'_>, db: &str) -> Result<Vec<RoleName>> {
    let mut names = Vec::new();
    documents::each(&cx.connection.store, Kind::Roles, &mut |doc| {
        if let (Value::String(role), Value::String(owner)) = (doc.get("role"), doc.get("db"))
            && owner == db
        {
            names.push(RoleName::new(role, db));
        }
        Ok(true)
    })?;
    if args.show_builtin == Some(true) {
        let here = builtin::ROLES.iter().filter(|role| role.is_in(db));
        names.extend(here.map(|role| RoleName::new(role.name, db)));
    }
    names.sort_unstable();
    Ok(names)
}

fn describe(cx: &Context<'_>, args: &Args<'_>, role: &RoleName) -> Result<Option<DocBuf>> {
    let mut own = Privileges::new();
    let built_in = builtin::find(&role.name, &role.db);
    let stored = match built_in {
        Some(built_in) => {
            built_in.grant(&role.db, &mut own);
            None
        }
        None => match documents::read(&cx.connection.store, Kind::Roles, &role.id())? {
            Some(doc) => Some(doc),
            None => return Ok(None),
        },
    };
    let mut contained = Vec::new();
    let mut below = Closure::default();
    if let Some(doc) = &stored {
        own = roles::privileges_of(doc.as_doc())?;
        contained = users::roles_of(doc.as_doc())?;
        below = roles::closure(&cx.connection.store, &contained)?;
    }
    Ok(Some(DocBuf::build(|out| {
        if stored.is_some() {
            out.put("_id", role.id().as_str());
        }
        role.write("role", out);
        out.put("isBuiltin", built_in.is_some());
        out.array("roles", |list| write_roles(&contained, list));
        out.array("inheritedRoles", |list| write_roles(&below.roles, list));
        if args.show_privileges == Some(PrivilegeFormat::Shown) {
            out.array("privileges", |list| write_privileges(&own, list));
            for (resource, actions) in &own {
                below.privileges.entry(resource.clone()).or_default().add(*actions);
            }
            out.array("inheritedPrivileges", |list| write_privileges(&below.privileges, list));
        }
        if args.show_restrictions == Some(true) {
            let given =
                stored.as_ref().and_then(|doc| match doc.get("authenticationRestrictions") {
                    Value::Array(list) => Some(list),
                    _ => None,
                });
            out.put("authenticationRestrictions", given.unwrap_or(Array::EMPTY));
        }
    })))
}
