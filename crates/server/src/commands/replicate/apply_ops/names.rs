//! The collections that an entry's command is about. A UUID prevails over a name, and may be that of a collection in
//! another database than the entry's. Access control, the write block and the execution all go by what is found here.

use std::sync::Arc;

use nagi_store::{Catalog, Collection, Namespace};

use super::entry::{Entry, flag};
use crate::core::command::prelude::*;

/// What the command of an entry is about.
pub(super) enum Names {
    /// Not a collection.
    Database,
    Collection {
        /// The collection's namespace, or the one that the entry tells if there is no such collection.
        ns: Namespace,
        found: Option<Arc<Collection>>,
    },
    Create {
        ns: Namespace,
        /// The collection with the entry's UUID, if it has another name now: it gets this one.
        elsewhere: Option<Arc<Collection>>,
    },
    Rename(Moved),
}

/// The collections of a rename.
pub(super) struct Moved {
    /// The source's namespace, or the one that the entry tells if there is no such collection.
    pub(super) from: Namespace,
    pub(super) source: Option<Arc<Collection>>,
    pub(super) to: Namespace,
    /// A collection may be dropped for it: `doomed`, if it exists.
    pub(super) drops: bool,
    pub(super) doomed: Option<Arc<Collection>>,
}

impl Names {
    pub(super) fn of(catalog: &Catalog, entry: &Entry<'_>) -> Result<Names> {
        Ok(match entry.command() {
            "abortIndexBuild" | "abortTransaction" | "applyOps" | "commitTransaction"
            | "dbCheck" | "dropDatabase" | "importCollection" | "startIndexBuild" => {
                Names::Database
            }
            "create" => create(catalog, entry)?,
            "renameCollection" => Names::Rename(Moved::of(catalog, entry)?),
            _ => {
                let found = match entry.uuid {
                    Some(uuid) => catalog.by_uuid(uuid).cloned(),
                    None => catalog.collection(&told(entry)?).cloned(),
                };
                let ns = found.as_ref().map(|found| Ok(found.namespace.clone()));
                Names::Collection { ns: ns.unwrap_or_else(|| told(entry))?, found }
            }
        })
    }

    /// The databases that the command changes, as far as it is about collections.
    pub(super) fn databases(&self) -> impl Iterator<Item = &str> {
        let (first, second, third) = match self {
            Names::Database => (None, None, None),
            Names::Collection { ns, .. } | Names::Create { ns, .. } => (Some(ns), None, None),
            Names::Rename(moved) => {
                let doomed = moved.doomed.as_ref().map(|doomed| &doomed.namespace);
                (Some(&moved.from), Some(&moved.to), doomed)
            }
        };
        [first, second, third].into_iter().flatten().map(Namespace::database)
    }
}

/// The namespace that the first field of the command tells.
fn told(entry: &Entry<'_>) -> Result<Namespace> {
    match entry.object.first().map(|first| first.value()) {
        Some(Value::String(name)) => Namespace::new(entry.database(), name),
        _ => bail!(Code::INVALID_NAMESPACE, "collection name has invalid type"),
    }
}

fn create(catalog: &Catalog, entry: &Entry<'_>) -> Result<Names> {
    let name = entry.object.get("create").as_str().unwrap_or("");
    let ns = Namespace::new(entry.database(), name)?;
    let known = entry.uuid.and_then(|uuid| catalog.by_uuid(uuid));
    let elsewhere = known.filter(|known| known.namespace != ns).cloned();
    if let Some(elsewhere) = &elsewhere
        && elsewhere.namespace.database() != ns.database()
    {
        bail!(Code::Location(40_655), "Invalid name {ns} for UUID {}", elsewhere.uuid);
    }
    Ok(Names::Create { ns, elsewhere })
}

impl Moved {
    fn of(catalog: &Catalog, entry: &Entry<'_>) -> Result<Moved> {
        let parse = |name: &str| match entry.object.get(name) {
            Value::String(text) => Namespace::parse(text),
            _ => bail!(Code::INVALID_NAMESPACE, "'{name}' must be of type String"),
        };
        let (from, to) = (parse("renameCollection")?, parse("to")?);
        let source = match entry.uuid {
            Some(uuid) => catalog.by_uuid(uuid),
            None => catalog.collection(&from),
        };
        let (drops, doomed) = match entry.object.get("dropTarget") {
            given @ Value::Binary(_) => {
                let uuid = crate::commands::common::uuid("renameCollection.dropTarget", given)?;
                let known = catalog.by_uuid(uuid);
                // mongorestore removes the UUIDs of entries, but not this one, which then says nothing here.
                let by_name = || catalog.collection(&to).filter(|_| entry.uuid.is_none());
                (true, known.or_else(by_name))
            }
            _ => (flag(entry.object, "dropTarget")?, catalog.collection(&to)),
        };
        Ok(Moved {
            from: source.map_or(from, |source| source.namespace.clone()),
            source: source.cloned(),
            to,
            drops,
            doomed: doomed.cloned().filter(|_| drops),
        })
    }

    /// Renames between names that a client may not rename: only the server's own users may. The buckets of time
    /// series are renamed with them.
    pub(super) fn is_internal(&self) -> bool {
        let buckets = |ns: &Namespace| ns.collection().starts_with("system.buckets.");
        (self.from.is_system() || self.to.is_system())
            && !(buckets(&self.from) && buckets(&self.to))
    }
}
