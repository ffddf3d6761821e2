//! State shared by the threads of a schedule: two collections, the acknowledged writes, and the invariants.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use nagi_bson::{Doc, DocBuf, Value, json, number};
use nagi_error::Result;
use nagi_kv::Memory;
use nagi_store::{Collection, Namespace, RecordBuf, Store, StoreOptions, WriteOptions, WriteTxn};

use crate::random::Random;

/// Sum of the accounts.
pub(crate) const TOTAL: i64 = 100;

pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    /// The namespace that is worked on, and its alternative name after a rename.
    pub(crate) name: Namespace,
    pub(crate) other: Namespace,
    /// Accounts between which transactions move money.
    pub(crate) bank: Namespace,
    /// Documents by `_id` as their writers know them; `None`: deleted.
    written: Mutex<BTreeMap<i32, Option<i32>>>,
    /// Indexes whose creation was acknowledged.
    built: Mutex<BTreeSet<String>>,
}

pub(crate) fn parse(text: &str) -> DocBuf {
    json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl World {
    pub(crate) fn new(random: &mut Random) -> World {
        let options = StoreOptions { record_cache_bytes: 1 << 19, ..StoreOptions::default() };
        let store = Store::open(Arc::new(Memory::new()), options).unwrap();
        let name = |text: &str| Namespace::parse(text).unwrap();
        let world = World {
            store,
            name: name("d.c"),
            other: name("d.e"),
            bank: name("d.bank"),
            written: Mutex::default(),
            built: Mutex::default(),
        };
        // Its records are numbered, or clustered by `_id`.
        let options = match random.below(3) {
            0 => parse("{clusteredIndex: {key: {_id: 1}, unique: true}}"),
            _ => DocBuf::new(),
        };
        world.store.create_collection(&world.name, options.as_doc()).unwrap();
        world.store.create_collection(&world.bank, Doc::EMPTY).unwrap();
        // Indexes of few documents are built record by record, those of more documents from sorted keys.
        for id in 0..2 + random.below(5) as i32 {
            world.insert(100 + id, 100 + id).unwrap();
        }
        for (id, money) in [(1, TOTAL - 40), (2, 40)] {
            world.put(&world.bank, &parse(&format!("{{_id: {id}, m: {money}}}"))).unwrap();
        }
        world
    }

    /// The collection under its current name.
    pub(crate) fn collection(&self) -> Option<Arc<Collection>> {
        self.store.collection(&self.name).or_else(|| self.store.collection(&self.other))
    }

    fn put(&self, name: &Namespace, doc: &DocBuf) -> Result<()> {
        self.store.write(WriteOptions::default(), &mut |txn| match txn.collection(name) {
            Some(collection) => txn.insert(&collection, doc.as_doc()).map(drop),
            None => Err(gone()),
        })?;
        Ok(())
    }

    /// A document with a `u` that no other document has.
    fn document(id: i32, u: i32) -> DocBuf {
        parse(&format!("{{_id: {id}, u: {u}, a: {}, t: [{u}, {}]}}", u % 3, id % 2))
    }

    pub(crate) fn insert(&self, id: i32, u: i32) -> Result<()> {
        self.put(&self.name, &World::document(id, u))?;
        self.written.lock().unwrap().insert(id, Some(u));
        Ok(())
    }

    /// Replaces a document, or (without `u`) deletes it; returns true if it existed.
    pub(crate) fn change(&self, id: i32, u: Option<i32>) -> Result<bool> {
        let was_there = self.store.write(WriteOptions::default(), &mut |txn| {
            let Some(collection) = txn.collection(&self.name) else { return Err(gone()) };
            let Some((record, old)) = find(txn, &collection, id)? else { return Ok(false) };
            match u {
                Some(u) => {
                    let new = World::document(id, u);
                    txn.update(&collection, record.key(), old.as_doc(), new.as_doc())?;
                }
                None => txn.delete(&collection, record.key(), old.as_doc())?,
            }
            Ok(true)
        })?;
        let was_there = was_there.value;
        if was_there {
            self.written.lock().unwrap().insert(id, u);
        }
        Ok(was_there)
    }

    pub(crate) fn note_built(&self, name: &str) {
        self.built.lock().unwrap().insert(name.to_owned());
    }

    /// Checked at the end, when all threads have finished. `drops`: indexes and documents may be gone.
    pub(crate) fn check(&self, roles: &str, drops: bool) {
        self.check_bank(roles);
        let Some(collection) = self.collection() else {
            assert!(drops, "{roles}: the collection is gone");
            return;
        };
        let unready: Vec<_> = collection.indexes.iter().filter(|i| !i.ready).collect();
        assert!(unready.is_empty(), "{roles}: {} is not ready", unready[0].name());
        self.check_valid(roles, &collection);
        if drops {
            return;
        }
        for name in self.built.lock().unwrap().iter() {
            assert!(collection.index(name).is_some(), "{roles}: acknowledged {name} is gone");
        }
        let mut stored = BTreeMap::new();
        let mut scan = self.store.latest().scan(&collection, true).unwrap();
        while scan.advance().unwrap() {
            let int = |name| number::truncate_to_i64(scan.doc().get(name)).unwrap() as i32;
            let twice = stored.insert(int("_id"), int("u"));
            assert!(twice.is_none(), "{roles}: document {} is there twice", int("_id"));
        }
        for (id, u) in self.written.lock().unwrap().iter() {
            assert_eq!(stored.get(id), u.as_ref(), "{roles}: document {id}");
            let mut buf = Vec::new();
            let found = self.store.find_by_id(&collection, Value::Int32(*id), &mut buf).unwrap();
            let found = found.and_then(|doc| number::truncate_to_i64(doc.get("u")));
            assert_eq!(found, u.map(i64::from), "{roles}: document {id} by its id");
        }
        assert_eq!(collection.count(), stored.len() as i64, "{roles}");
    }

    /// Records, index entries and counters agree, in one snapshot.
    pub(crate) fn check_valid(&self, roles: &str, collection: &Collection) {
        // 175: it was dropped meanwhile.
        if let Ok(report) = self.store.validate(collection) {
            assert!(report.errors.is_empty(), "{roles}: {:?}", report.errors);
        }
    }

    /// The total is constant in every snapshot.
    pub(crate) fn check_bank(&self, roles: &str) {
        let bank = self.store.collection(&self.bank).unwrap();
        let snapshot = self.store.snapshot().unwrap();
        let mut scan = snapshot.reader().scan(&bank, true).unwrap();
        let mut sum = 0;
        while scan.advance().unwrap() {
            sum += number::truncate_to_i64(scan.doc().get("m")).unwrap();
        }
        assert_eq!(sum, TOTAL, "{roles}");
    }
}

pub(crate) fn gone() -> nagi_error::Error {
    nagi_error::err!(nagi_error::Code::NAMESPACE_NOT_FOUND, "no such collection")
}

/// A document by its `_id`, as visible in the transaction.
pub(crate) fn find(
    txn: &WriteTxn<'_>,
    collection: &Collection,
    id: i32,
) -> Result<Option<(nagi_store::RecordId, DocBuf)>> {
    let Some(record) = txn.reader().find_id(collection, id.into())? else { return Ok(None) };
    let mut buf = RecordBuf::default();
    let found = txn.reader().record(collection, record.key(), &mut buf)?.map(|doc| doc.to_buf());
    Ok(found.map(|doc| (record, doc)))
}
