//! Which namespaces are copied: `--include` and `--exclude`.

/// The database with this command's progress, in the target.
pub(super) const OWN_DB: &str = "nagi_copy";
/// Databases whose contents belong to a deployment and not to its users.
const INTERNAL: &[&str] = &["admin", "config", "local", OWN_DB];
/// The most names in one list.
const NAMES_MAX: usize = 1000;
/// The prefix of the collections that store time series.
pub(super) const BUCKETS: &str = "system.buckets.";

/// The chosen namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
}

impl Filter {
    /// Checks the names of both lists.
    ///
    /// # Errors
    /// If a name is no database and no `database.collection`, names what is never copied, or a list is too long.
    pub(super) fn check(&self) -> Result<(), String> {
        for (flag, names) in [("--include", &self.include), ("--exclude", &self.exclude)] {
            if names.len() > NAMES_MAX {
                return Err(format!("{flag} occurs more than {NAMES_MAX} times"));
            }
            for name in names {
                let (db, collection) = name.split_once('.').unwrap_or((name, "-"));
                if db.is_empty() || collection.is_empty() {
                    return Err(format!(
                        "{flag} has the bad value '{name}': expected a database or database.collection"
                    ));
                }
                if INTERNAL.contains(&db) {
                    return Err(format!(
                        "{flag} has the bad value '{name}': the database {db} is never copied"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns true if collections of the database may be copied.
    pub(super) fn has_database(&self, db: &str) -> bool {
        let of_db = |name: &String| name.split('.').next() == Some(db);
        !INTERNAL.contains(&db)
            && (self.include.is_empty() || self.include.iter().any(of_db))
            && !self.exclude.iter().any(|name| name == db)
    }

    /// Returns true if the collection, view or time series is copied.
    pub(super) fn covers(&self, db: &str, collection: &str) -> bool {
        let is_named = |name: &String| match name.split_once('.') {
            Some((of, named)) => of == db && named == collection,
            None => name == db,
        };
        // What is behind views and time series is not copied under its own name.
        let is_internal = collection.starts_with("system.") && collection != "system.js";
        !INTERNAL.contains(&db)
            && !is_internal
            && (self.include.is_empty() || self.include.iter().any(is_named))
            && !self.exclude.iter().any(is_named)
    }
}

#[test]
fn names_are_chosen() {
    let filter = |include: &[&str], exclude: &[&str]| Filter {
        include: include.iter().map(|name| (*name).to_owned()).collect(),
        exclude: exclude.iter().map(|name| (*name).to_owned()).collect(),
    };
    let all = filter(&[], &[]);
    assert!(all.covers("shop", "orders") && all.covers("shop", "system.js"));
    for (db, name) in [
        ("admin", "c"),
        ("config", "c"),
        ("local", "c"),
        (OWN_DB, "state"),
        ("shop", "system.views"),
    ] {
        assert!(!all.covers(db, name), "{db}.{name}");
    }
    let some = filter(&["shop", "log.a.b"], &["shop.tmp", "old"]);
    for (db, name, is_covered) in [
        ("shop", "orders", true),
        ("shop", "tmp", false),
        ("shop", "tmp.more", true),
        ("log", "a.b", true),
        ("log", "a", false),
        ("shop2", "orders", false),
    ] {
        assert_eq!(some.covers(db, name), is_covered, "{db}.{name}");
    }
    assert!(some.has_database("log") && !some.has_database("old") && !some.has_database("other"));
    assert!(some.check().is_ok() && all.check().is_ok());
    for bad in [".a", "a.", "", "admin.x", "local", "nagi_copy"] {
        assert!(filter(&[bad], &[]).check().is_err() && filter(&[], &[bad]).check().is_err());
    }
    let many = vec!["a"; NAMES_MAX + 1];
    assert!(filter(&many, &[]).check().unwrap_err().contains("more than"));
}
