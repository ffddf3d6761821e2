//! Privileges: sets of actions on resources, their documents, and the form in which a login checks them.
//!
//! A resource is the cluster, everything, or collections by database and name. An empty name stands for all,
//! with two exceptions: an empty collection name does not cover system collections, and an empty database name
//! covers neither `local` nor `config`. A privilege on those has to name them.
//!
//!   {db: "shop", collection: ""}       shop.orders: yes    shop.system.profile: no
//!   {db: "", collection: ""}           shop.orders: yes    local.startup_log: no
//!   {db: "local", collection: ""}                          local.startup_log: yes

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail, err};

use super::action::{Action, ActionSet};
use crate::args::{self, StrictBool};

/// The resources that a privilege applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Any,
    Cluster,
    /// Collections by name. An empty name stands for all.
    Collections {
        db: Box<str>,
        collection: Box<str>,
    },
    /// The buckets of time series collections.
    Buckets {
        db: Box<str>,
        collection: Box<str>,
    },
}

/// Privileges by resource; each resource occurs once.
pub(crate) type Privileges = BTreeMap<Resource, ActionSet>;

/// The object of an operation, whose privileges are checked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'t> {
    Cluster,
    /// The normal collections of all databases.
    Everywhere,
    Database(&'t str),
    Collection(&'t str, &'t str),
}

fn refused(text: &str) -> Error {
    err!(Code::FAILED_TO_PARSE, "{text}")
}

impl Resource {
    pub(crate) fn on(db: &str, collection: &str) -> Resource {
        Resource::Collections { db: db.into(), collection: collection.into() }
    }

    /// The database whose `grantRole` action allows to grant privileges on this resource.
    pub(crate) fn governing_database(&self) -> &str {
        match self {
            Resource::Any | Resource::Cluster => "admin",
            Resource::Collections { db, .. } | Resource::Buckets { db, .. } if db.is_empty() => {
                "admin"
            }
            Resource::Collections { db, .. } | Resource::Buckets { db, .. } => db,
        }
    }

    /// Parses a resource document (9).
    pub(crate) fn parse(doc: Doc<'_>) -> Result<Resource> {
        let (mut db, mut collection, mut buckets) = (None, None, None);
        let mut whole = None;
        for element in doc {
            let text = |field: &str| match element.value() {
                Value::String(text) => Ok(text.into()),
                other => bail!(
                    Code::FAILED_TO_PARSE,
                    "wrong type for '{field}' field, expected String, found {}",
                    other.kind().name()
                ),
            };
            match element.name() {
                "db" => db = Some(text("db")?),
                "collection" => collection = Some(text("collection")?),
                "system_buckets" => buckets = Some(text("system_buckets")?),
                "cluster" if !is_set(doc, "cluster")? => {}
                "anyResource" if !is_set(doc, "anyResource")? => {}
                "cluster" if whole.is_none() => whole = Some(Resource::Cluster),
                "anyResource" if whole.is_none() => whole = Some(Resource::Any),
                "cluster" | "anyResource" => {
                    return Err(refused("resource must not set both cluster and anyResource"));
                }
                other => bail!(Code::FAILED_TO_PARSE, "unrecognized field '{other}' in resource"),
            }
        }
        match (whole, db, collection, buckets) {
            (Some(whole), None, None, None) => Ok(whole),
            (Some(_), ..) => Err(refused(
                "resource must not set db and collection together with cluster or anyResource",
            )),
            (None, Some(db), Some(collection), None) => {
                Ok(Resource::Collections { db, collection })
            }
            (None, db, None, Some(collection)) => {
                Ok(Resource::Buckets { db: db.unwrap_or_default(), collection })
            }
            (None, None, None, None) => Err(refused(
                "resource must have either cluster or anyResource or db and collection set",
            )),
            _ => Err(refused(
                "resource must set both db and collection or neither, but not exactly one.",
            )),
        }
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        match self {
            Resource::Any => out.put("anyResource", true),
            Resource::Cluster => out.put("cluster", true),
            Resource::Collections { db, collection } => {
                out.put("db", &**db);
                out.put("collection", &**collection);
            }
            Resource::Buckets { db, collection } => {
                if !db.is_empty() {
                    out.put("db", &**db);
                }
                out.put("system_buckets", &**collection);
            }
        }
    }
}

/// Parses one of the two boolean fields of a resource.
fn is_set(resource: Doc<'_>, name: &'static str) -> Result<bool> {
    let given: Option<StrictBool> = args::read(resource, "resource", name)?;
    Ok(given == Some(StrictBool(true)))
}

/// Parses an array of privilege documents `{resource, actions}`.
pub(crate) fn parse_all(array: Array<'_>) -> Result<Privileges> {
    let mut all = Privileges::new();
    for value in array.iter() {
        let Value::Doc(doc) = value else {
            return Err(refused("privileges must be an array of objects"));
        };
        let (resource, actions) = parse(doc)?;
        all.entry(resource).or_default().add(actions);
    }
    Ok(all)
}

fn parse(doc: Doc<'_>) -> Result<(Resource, ActionSet)> {
    let resource = match doc.get("resource") {
        Value::Doc(resource) => Resource::parse(resource)?,
        _ => return Err(refused("missing resource field")),
    };
    let actions = match doc.get("actions") {
        Value::Array(actions) => actions,
        _ => return Err(refused("missing actions field")),
    };
    if actions.is_empty() {
        return Err(refused("actions list cannot be empty"));
    }
    if let Some(other) = doc.iter().find(|e| !matches!(e.name(), "resource" | "actions")) {
        bail!(Code::FAILED_TO_PARSE, "unrecognized field '{}' in privilege", other.name());
    }
    if actions.iter().any(|action| action.as_str().is_none()) {
        return Err(refused("actions must be an array of strings"));
    }
    Ok((resource, ActionSet::parse(actions.iter().filter_map(|action| action.as_str()))?))
}

/// Writes privilege documents, in the order of their resources.
pub(crate) fn write_all(privileges: &Privileges, out: &mut ArrayWriter<'_>) {
    for (resource, actions) in privileges {
        out.doc(|doc| {
            doc.doc("resource", |doc| resource.write(doc));
            doc.array("actions", |list| actions.names().for_each(|name| list.push(name)));
        });
    }
}

/// Returns true if an empty collection name covers this collection.
fn is_normal(db: &str, collection: &str) -> bool {
    let of_replication = db == "local" && collection.starts_with("replset.");
    !collection.starts_with("system.") && !of_replication
}

type ByName<T> = HashMap<Box<str>, T, RandomState>;

/// The privileges within one database, or those that hold for all databases.
#[derive(Default)]
struct Scope {
    normal: ActionSet,
    collections: ByName<ActionSet>,
    buckets: ActionSet,
    buckets_of: ByName<ActionSet>,
}

impl Scope {
    fn allows(&self, collection: &str, normal: bool, action: Action) -> bool {
        let named =
            |by: &ByName<ActionSet>, name: &str| by.get(name).is_some_and(|a| a.has(action));
        (normal && self.normal.has(action))
            || (!self.collections.is_empty() && named(&self.collections, collection))
            || collection
                .strip_prefix("system.buckets.")
                .is_some_and(|name| self.buckets.has(action) || named(&self.buckets_of, name))
    }

    fn is_empty(&self) -> bool {
        self.normal.is_empty()
            && self.collections.values().all(ActionSet::is_empty)
            && !self.any_on_buckets()
    }

    fn any_on(&self, collection: &str, normal: bool) -> bool {
        (normal && !self.normal.is_empty())
            || self.collections.get(collection).is_some_and(|actions| !actions.is_empty())
            || collection.strip_prefix("system.buckets.").is_some_and(|name| {
                !self.buckets.is_empty()
                    || self.buckets_of.get(name).is_some_and(|actions| !actions.is_empty())
            })
    }

    fn any_on_buckets(&self) -> bool {
        !self.buckets.is_empty() || self.buckets_of.values().any(|actions| !actions.is_empty())
    }
}

/// Privileges arranged for checks. A check does not allocate and takes two lookups at most.
#[derive(Default)]
pub(crate) struct PrivilegeSet {
    any: ActionSet,
    cluster: ActionSet,
    everywhere: Scope,
    databases: ByName<Scope>,
}

impl PrivilegeSet {
    pub(crate) fn new(privileges: &Privileges) -> PrivilegeSet {
        let mut set = PrivilegeSet::default();
        for (resource, actions) in privileges {
            let place = match resource {
                Resource::Any => &mut set.any,
                Resource::Cluster => &mut set.cluster,
                Resource::Collections { db, collection } if collection.is_empty() => {
                    &mut set.scope(db).normal
                }
                Resource::Collections { db, collection } => {
                    set.scope(db).collections.entry(collection.clone()).or_default()
                }
                Resource::Buckets { db, collection } if collection.is_empty() => {
                    &mut set.scope(db).buckets
                }
                Resource::Buckets { db, collection } => {
                    set.scope(db).buckets_of.entry(collection.clone()).or_default()
                }
            };
            place.add(*actions);
        }
        set
    }

    fn scope(&mut self, db: &str) -> &mut Scope {
        match db {
            "" => &mut self.everywhere,
            db => self.databases.entry(db.into()).or_default(),
        }
    }

    /// Returns true if `action` is allowed on `target`.
    pub(crate) fn allows(&self, target: Target<'_>, action: Action) -> bool {
        if self.any.has(action) {
            return true;
        }
        match target {
            Target::Cluster => self.cluster.has(action),
            Target::Everywhere => self.everywhere.normal.has(action),
            Target::Database(db) => {
                (!is_special(db) && self.everywhere.normal.has(action))
                    || self.databases.get(db).is_some_and(|scope| scope.normal.has(action))
            }
            Target::Collection(db, collection) => {
                let normal = is_normal(db, collection);
                let own = self.databases.get(db);
                own.is_some_and(|scope| scope.allows(collection, normal, action))
                    || self.everywhere.allows(collection, normal && !is_special(db), action)
            }
        }
    }

    /// Returns true if any action is allowed in the database.
    pub(crate) fn any_in_database(&self, db: &str) -> bool {
        !self.any.is_empty()
            || (!is_special(db) && !self.everywhere.normal.is_empty())
            || !self.everywhere.collections.is_empty()
            || self.everywhere.any_on_buckets()
            || self.databases.get(db).is_some_and(|scope| !scope.is_empty())
    }

    /// Returns true if any action is allowed on the collection.
    pub(crate) fn any_on_collection(&self, db: &str, collection: &str) -> bool {
        let normal = is_normal(db, collection);
        !self.any.is_empty()
            || self.everywhere.any_on(collection, normal && !is_special(db))
            || self.databases.get(db).is_some_and(|scope| scope.any_on(collection, normal))
    }
}

/// Returns true for databases that an empty database name does not cover.
fn is_special(db: &str) -> bool {
    matches!(db, "local" | "config")
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn set(text: &str) -> PrivilegeSet {
        let doc = json::parse(&format!("{{p: {text}}}")).unwrap();
        PrivilegeSet::new(&parse_all(doc.get("p").as_array().unwrap()).unwrap())
    }

    #[test]
    fn empty_names_stand_for_all_but_system() {
        let all = set(r#"[{resource: {db: "", collection: ""}, actions: ["find"]}]"#);
        let find = |db, c| all.allows(Target::Collection(db, c), Action::Find);
        assert!(find("a", "c") && find("b", "d"));
        assert!(!find("a", "system.js") && !find("local", "c") && !find("config", "c"));
        assert!(!all.allows(Target::Collection("a", "c"), Action::Insert));
        assert!(all.allows(Target::Database("a"), Action::Find));
        assert!(!all.allows(Target::Cluster, Action::Find));
    }

    #[test]
    fn privileges_on_buckets_are_privileges_in_their_database() {
        let one = set(r#"[{resource: {db: "a", system_buckets: "m"}, actions: ["find"]}]"#);
        assert!(one.any_in_database("a") && !one.any_in_database("b"));
        assert!(one.any_on_collection("a", "system.buckets.m"));
        assert!(
            !one.any_on_collection("a", "system.buckets.n") && !one.any_on_collection("a", "m")
        );
        let everywhere = set(r#"[{resource: {system_buckets: "m"}, actions: ["find"]}]"#);
        assert!(everywhere.any_in_database("b"));
        assert!(everywhere.any_on_collection("b", "system.buckets.m"));
        let all = set(r#"[{resource: {db: "a", system_buckets: ""}, actions: ["find"]}]"#);
        assert!(all.any_on_collection("a", "system.buckets.n"));
    }

    #[test]
    fn names_reach_what_they_name() {
        let some = set(r#"[{resource: {db: "a", collection: ""}, actions: ["find"]},
                {resource: {db: "a", collection: "system.js"}, actions: ["insert"]},
                {resource: {db: "", collection: "c"}, actions: ["remove"]},
                {resource: {cluster: true}, actions: ["shutdown"]}]"#);
        let may = |db, c, action| some.allows(Target::Collection(db, c), action);
        assert!(may("a", "x", Action::Find) && !may("b", "x", Action::Find));
        assert!(may("a", "system.js", Action::Insert) && !may("a", "system.js", Action::Find));
        assert!(may("z", "c", Action::Remove) && !may("z", "d", Action::Remove));
        assert!(some.allows(Target::Cluster, Action::Shutdown));
        assert!(some.any_in_database("a") && some.any_on_collection("a", "x"));
        assert!(!some.any_on_collection("b", "x"));
    }

    #[test]
    fn refuses_bad_resources() {
        for text in [
            "{}",
            "{db: 'x'}",
            "{collection: 'x'}",
            "{cluster: true, anyResource: true}",
            "{cluster: true, db: 'x', collection: 'y'}",
            "{db: 1, collection: 'x'}",
            "{x: 1}",
        ] {
            let doc = json::parse(text).unwrap();
            assert_eq!(Resource::parse(doc.as_doc()).unwrap_err().code().0, 9, "{text}");
        }
    }
}
