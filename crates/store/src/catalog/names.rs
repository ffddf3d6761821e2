//! The collections by name, ident and UUID, in persistent maps.
//!
//! A version of the catalog is immutable, and DDL derives the next one from it. A copy shares everything that does
//! not change, so it costs the same for ten collections and for 100,000.
//!
//! Cost: a copy is a few reference counts; lookups, additions and removals are logarithmic.

use std::{
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use rpds::{HashTrieMapSync, RedBlackTreeMapSync};

use super::{Collection, Uuid};
use crate::{Namespace, ident::Ident};

/// See the module's header.
#[derive(Clone, Default)]
pub(crate) struct Names {
    by_name: RedBlackTreeMapSync<Namespace, Arc<Collection>>,
    by_ident: HashTrieMapSync<Ident, Arc<Collection>>,
    by_uuid: HashTrieMapSync<Uuid, Arc<Collection>>,
    views: RedBlackTreeMapSync<Namespace, Arc<Collection>>,
    /// By the name in lower case, because two names may not differ only in case.
    databases: RedBlackTreeMapSync<String, Database>,
}

/// A database exists while it has a collection.
#[derive(Clone)]
struct Database {
    name: Arc<str>,
    count: usize,
}

impl Names {
    pub(crate) fn get(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        self.by_name.get(namespace)
    }

    pub(crate) fn by_ident(&self, ident: Ident) -> Option<&Arc<Collection>> {
        self.by_ident.get(&ident)
    }

    pub(crate) fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<Collection>> {
        self.by_uuid.get(&uuid)
    }

    /// Adds a collection. It replaces its older version, which is returned, and any collection of the same name.
    pub(crate) fn put(&mut self, collection: &Arc<Collection>) -> Option<Arc<Collection>> {
        let older = self.by_ident(collection.ident).cloned();
        if let Some(older) = &older {
            self.remove(&older.namespace);
        }
        self.remove(&collection.namespace);
        let name = collection.namespace.clone();
        self.by_ident.insert_mut(collection.ident, Arc::clone(collection));
        self.by_uuid.insert_mut(collection.uuid, Arc::clone(collection));
        if collection.is_view() {
            self.views.insert_mut(name.clone(), Arc::clone(collection));
        }
        self.count_database(&name, 1);
        self.by_name.insert_mut(name, Arc::clone(collection));
        older
    }

    pub(crate) fn remove(&mut self, namespace: &Namespace) {
        let Some(collection) = self.by_name.get(namespace).cloned() else { return };
        self.by_name.remove_mut(namespace);
        self.by_ident.remove_mut(&collection.ident);
        self.by_uuid.remove_mut(&collection.uuid);
        self.views.remove_mut(namespace);
        self.count_database(namespace, -1);
    }

    fn count_database(&mut self, namespace: &Namespace, change: isize) {
        let key = namespace.database().to_ascii_lowercase();
        let known = self.databases.get(&key);
        let count = known.map_or(0, |known| known.count).saturating_add_signed(change);
        let name = match known {
            Some(known) if known.count > 0 => Arc::clone(&known.name),
            _ => namespace.database().into(),
        };
        match count {
            0 => drop(self.databases.remove_mut(&key)),
            count => self.databases.insert_mut(key, Database { name, count }),
        }
    }

    /// The name of a database that differs from this one only in case.
    pub(crate) fn other_case(&self, database: &str) -> Option<&str> {
        let known = self.databases.get(&database.to_ascii_lowercase());
        known.map(|known| &*known.name).filter(|name| *name != database)
    }

    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.databases.values().map(|database| &*database.name)
    }

    pub(crate) fn database<'c>(
        &'c self,
        name: &'c str,
    ) -> impl Iterator<Item = &'c Arc<Collection>> {
        of_database(&self.by_name, name)
    }

    /// The views of a database.
    pub(crate) fn views<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c Arc<Collection>> {
        of_database(&self.views, name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.by_name.values()
    }
}

/// The entries whose names begin with the database's.
fn of_database<'c>(
    map: &'c RedBlackTreeMapSync<Namespace, Arc<Collection>>,
    name: &'c str,
) -> impl Iterator<Item = &'c Arc<Collection>> {
    let entries = map.range::<str, _>(From(format!("{name}.")));
    entries.map(|(_, one)| one).take_while(move |one| one.namespace.database() == name)
}

/// Range of the names from this one on.
struct From(String);

impl RangeBounds<str> for From {
    fn start_bound(&self) -> Bound<&str> {
        Bound::Included(&self.0)
    }

    fn end_bound(&self) -> Bound<&str> {
        Bound::Unbounded
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nagi_bson::Doc;
    use nagi_kv::Memory;

    use crate::{Namespace, Store, StoreOptions};

    /// Names that sort between a database's name and its collections, and databases that are created and dropped.
    #[test]
    fn databases_are_kept_apart() {
        let store = Store::open(Arc::new(Memory::new()), StoreOptions::default()).expect("opens");
        let name = |text: &str| Namespace::parse(text).expect("a name");
        for text in ["a.x", "a-2.x", "a!.x", "a.y", "ab.x", "b.z"] {
            store.create_collection(&name(text), Doc::EMPTY).expect("creates");
        }
        let view = nagi_bson::doc! { "viewOn": "x" };
        store.create_collection(&name("a.v"), view.as_doc()).expect("creates");
        let catalog = store.catalog();
        let names = |of: &str| {
            catalog.database(of).map(|c| c.namespace.collection().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names("a"), names("a-2"), names("c")),
            (vec!["v".to_owned(), "x".to_owned(), "y".to_owned()], vec!["x".to_owned()], vec![],)
        );
        let views: Vec<_> = catalog.views("a").map(|c| c.namespace.as_str()).collect();
        assert_eq!(views, ["a.v"]);
        assert!(store.create_collection(&name("A.q"), Doc::EMPTY).is_err(), "13297");
        store.drop_database("a").expect("drops");
        store.create_collection(&name("A.q"), Doc::EMPTY).expect("no other case is left");
        let databases: Vec<String> = store.catalog().databases().map(str::to_owned).collect();
        assert_eq!(databases, ["A", "a!", "a-2", "ab", "b"]);
        let q = store.collection(&name("A.q")).expect("it is there");
        assert_eq!(store.catalog().by_uuid(q.uuid).map(|c| c.ident), Some(q.ident));
    }
}
