//! `database.collection`, validated once when it is parsed.

use std::{
    borrow::Borrow,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use nagi_error::{Code, Result, bail};

/// Longest database name in bytes.
const DATABASE_BYTES_MAX: usize = 63;

/// What the names of collections of buckets begin with.
const BUCKETS_PREFIX: &str = "system.buckets.";

/// A validated full name of a collection. Ordered by its text; clones share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    text: Arc<str>,
    dot: u8,
}

impl Hash for Namespace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for Namespace {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl Namespace {
    /// Longest `database.collection` in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Validates both names; code 73 with MongoDB's text if one is invalid.
    pub fn new(database: &str, collection: &str) -> Result<Namespace> {
        Namespace::check_database(database)?;
        check_collection(database, collection)?;
        if database.len() + 1 + collection.len() > Namespace::BYTES_MAX {
            bail!(
                Code::INVALID_NAMESPACE,
                "Fully qualified namespace is too long. Namespace: {database}.{collection} Max: {}",
                Namespace::BYTES_MAX
            );
        }
        let text = format!("{database}.{collection}").into();
        Ok(Namespace { text, dot: database.len() as u8 })
    }

    /// Splits at the first dot and validates both parts.
    pub fn parse(text: &str) -> Result<Namespace> {
        match text.split_once('.') {
            Some((database, collection)) => Namespace::new(database, collection),
            None => bail!(Code::INVALID_NAMESPACE, "Invalid namespace specified '{text}'"),
        }
    }

    /// Checks that `database` is a valid database name; code 73 if not.
    pub fn check_database(database: &str) -> Result<()> {
        let bad = |c: char| matches!(c, '\0' | '/' | '\\' | '.' | ' ' | '"' | '$');
        if database.is_empty() || database.len() > DATABASE_BYTES_MAX || database.contains(bad) {
            bail!(Code::INVALID_NAMESPACE, "Invalid database name: '{database}'");
        }
        Ok(())
    }

    pub fn database(&self) -> &str {
        &self.text[..usize::from(self.dot)]
    }

    pub fn collection(&self) -> &str {
        &self.text[usize::from(self.dot) + 1..]
    }

    /// `database.collection`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The collection with the buckets of a time series collection of this name; code 73 if that name is too long.
    pub fn buckets(&self) -> Result<Namespace> {
        Namespace::new(self.database(), &format!("{BUCKETS_PREFIX}{}", self.collection()))
    }

    /// The time series collection whose buckets a collection of this name has; none for another name.
    pub fn of_buckets(&self) -> Option<Namespace> {
        let name = self.collection().strip_prefix(BUCKETS_PREFIX)?;
        Namespace::new(self.database(), name).ok()
    }

    /// Returns true if it is the name of a collection of buckets.
    pub fn is_buckets(&self) -> bool {
        self.collection().strip_prefix(BUCKETS_PREFIX).is_some_and(|name| !name.is_empty())
    }

    /// Returns true if it is one of the server's own collections.
    pub fn is_system(&self) -> bool {
        self.collection().starts_with("system.")
    }
}

fn check_collection(database: &str, collection: &str) -> Result<()> {
    let allowed_dollar = database == "local" && collection == "oplog.$main";
    if collection.is_empty() {
        bail!(Code::INVALID_NAMESPACE, "Invalid namespace specified '{database}.'");
    }
    let bad = |c: char| c == '\0' || (c == '$' && !allowed_dollar);
    if collection.starts_with('.') || collection.contains(bad) {
        bail!(Code::INVALID_NAMESPACE, "Invalid collection name: '{collection}'");
    }
    Ok(())
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Namespace;

    #[test]
    fn splits_at_the_first_dot() {
        let ns = Namespace::parse("db.a.b").unwrap();
        assert_eq!((ns.database(), ns.collection()), ("db", "a.b"));
    }

    #[test]
    fn refuses_what_mongodb_refuses() {
        for bad in ["db", "db.", ".c", "d b.c", "d$.c", "db..c", "db.a$b", "db.a\0b"] {
            assert_eq!(Namespace::parse(bad).unwrap_err().code().0, 73, "{bad:?}");
        }
        assert!(Namespace::new("local", "oplog.$main").is_ok());
        assert!(Namespace::new("d", &"c".repeat(253)).is_ok());
        assert!(Namespace::new("d", &"c".repeat(254)).is_err());
        assert!(Namespace::new(&"d".repeat(64), "c").is_err());
    }
}
