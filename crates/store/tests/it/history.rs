//! Random writers, transactions and DDL on a store with a change log, and helpers that rebuild the state from the
//! log.
//!
//! The expected state ("world") at a stamp is the result of the log's entries up to it. So a change that bypasses
//! the hook, a change logged for the wrong collection, or a commit visible before or after its stamp show up as a
//! snapshot that differs from the world, or as an entry that does not apply.

use std::collections::{BTreeMap, BTreeSet};

use nagi_bson::{Doc, DocBuf, Value, doc, json, text::doc_text};
use nagi_error::{Code, Result};
use nagi_kv::{Engine, Space};
use nagi_store::{
    BuildOptions, Change, ChangeLog, Client, Collection, Durability, IndexSelector, Joins,
    Lifetime, Namespace, Rename, Statement, Store, Transaction, WriteOptions,
};

use crate::random::Random;

/// A collection of the database used by the tests.
pub(crate) fn named(name: &str) -> Namespace {
    Namespace::new("d", name).unwrap()
}

/// Documents by `_id`, and the names of the ready indexes.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Contents {
    pub(crate) docs: BTreeMap<String, String>,
    pub(crate) indexes: BTreeSet<String>,
}

pub(crate) type World = BTreeMap<String, Contents>;

/// An entry is a document with the state before and after the change.
pub(crate) struct Log;

impl ChangeLog for Log {
    fn entry(&self, change: &Change<'_>, by: &Client, entry: &mut Vec<u8>) -> Joins {
        let statement = by.statement().map_or(-2, |statement: Statement| statement.id);
        let indexes = |collection: &Collection| {
            let ready = collection.ready_indexes().map(|index| index.name().to_owned());
            ready.collect::<Vec<_>>().join(",")
        };
        let built = match *change {
            Change::Document { collection, before, after, .. } => DocBuf::build(|w| {
                w.put("ns", collection.namespace.as_str());
                w.put("statement", statement);
                before.into_iter().for_each(|doc| w.put("before", doc));
                after.into_iter().for_each(|doc| w.put("after", doc));
            }),
            Change::DatabaseDropped(_) => return Joins::No,
            Change::Catalog { before, after, target, .. } => DocBuf::build(|w| {
                w.put("replaces", target.is_some());
                before.into_iter().for_each(|c| w.put("from", c.namespace.as_str()));
                after.into_iter().for_each(|c| w.put("to", c.namespace.as_str()));
                after.into_iter().for_each(|c| w.put("indexes", indexes(c).as_str()));
            }),
        };
        entry.extend_from_slice(built.as_doc().as_bytes());
        Joins::No
    }
}

fn id(doc: Doc<'_>) -> String {
    doc.get("_id").to_string()
}

/// Applies an entry to the world.
pub(crate) fn apply(world: &mut World, entry: Doc<'_>) {
    if let Some(ns) = entry.get("ns").as_str() {
        let docs = &mut world.get_mut(ns).unwrap_or_else(|| panic!("{ns} is there")).docs;
        if let Some(before) = entry.get("before").as_doc() {
            assert_eq!(docs.remove(&id(before)), Some(doc_text(before)), "{entry}");
        }
        if let Some(after) = entry.get("after").as_doc() {
            assert_eq!(docs.insert(id(after), doc_text(after)), None, "{entry}");
        }
        return;
    }
    let before = entry.get("from").as_str().map(|ns| world.remove(ns).expect("it was there"));
    if let Some(ns) = entry.get("to").as_str() {
        let indexes = entry.get("indexes").as_str().unwrap_or_default();
        let indexes = indexes.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        if entry.get("replaces") == Value::Bool(true) {
            assert!(world.remove(ns).is_some(), "{entry}");
        }
        let contents = Contents { indexes: indexes.collect(), ..before.unwrap_or_default() };
        assert!(world.insert(ns.to_owned(), contents).is_none(), "{entry}");
    }
}

/// The log's entries in order, with their stamps.
pub(crate) fn entries(engine: &dyn Engine) -> Vec<(u64, DocBuf)> {
    let mut cursor = engine.latest().cursor(Space::Changes, &[], &[]).unwrap();
    let mut found = cursor.seek(&[]).unwrap();
    let mut entries = Vec::new();
    while found {
        let stamp = u64::from_be_bytes(*cursor.key().first_chunk().unwrap());
        entries.push((stamp, Doc::parse(cursor.value()).unwrap().to_buf()));
        found = cursor.next().unwrap();
    }
    entries
}

/// The state visible through a handle. Fails if its transaction was aborted meanwhile.
pub(crate) fn seen(store: &Store) -> Result<World> {
    let catalog = store.catalog();
    let snapshot = store.snapshot()?;
    let mut world = World::new();
    for collection in catalog.iter() {
        let Some(collection) = store.collection(&collection.namespace) else { continue };
        let indexes = collection.ready_indexes().map(|index| index.name().to_owned()).collect();
        let mut contents = Contents { indexes, ..Contents::default() };
        let mut cursor = snapshot.reader().scan(&collection, true)?;
        while cursor.advance()? {
            contents.docs.insert(id(cursor.doc()), doc_text(cursor.doc()));
        }
        world.insert(collection.namespace.as_str().to_owned(), contents);
    }
    Ok(world)
}

fn namespace(random: &mut Random) -> Namespace {
    named(random.pick(&["a", "b", "x", "y"]))
}

/// Inserts, replaces or deletes one document.
pub(crate) fn write(store: &Store, random: &mut Random) -> Result<()> {
    let (key, action) = (random.below(20) as i32, random.below(3));
    let name = namespace(random);
    let new = doc! { "_id": key, "v": (random.next() as i64) };
    let written = store.write(WriteOptions::default(), &mut |txn| {
        let Some(collection) = txn.collection(&name) else { return Ok(()) };
        let found = txn.reader().find_id(&collection, Value::Int32(key))?;
        let Some(record) = found else {
            return txn.attempt(|txn| txn.insert(&collection, new.as_doc())).map(drop);
        };
        let mut buf = nagi_store::RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.map(|doc| doc.to_buf());
        let Some(old) = old else { return Ok(()) };
        match action {
            0 => txn.delete(&collection, record.key(), old.as_doc()),
            1 => txn.update(&collection, record.key(), old.as_doc(), new.as_doc()),
            // A failed statement leaves no entry in the log.
            _ => {
                let failed = txn.attempt(|txn| {
                    txn.delete(&collection, record.key(), old.as_doc())?;
                    nagi_error::bail!(Code::BAD_VALUE, "undone");
                    #[allow(unreachable_code)]
                    Ok(())
                });
                match failed {
                    Err(error) if error.code() == Code::BAD_VALUE => Ok(()),
                    other => other,
                }
            }
        }
    })?;
    assert!(written.stamp.get().is_none_or(|stamp| stamp <= store.last_stamp()));
    Ok(())
}

pub(crate) fn transact(store: &Store, random: &mut Random) -> Result<()> {
    let txn = Transaction::begin(store, Lifetime::Long)?;
    for _ in 0..1 + random.below(3) {
        write(txn.store(), random)?;
    }
    if random.below(4) == 0 {
        let name = namespace(random);
        txn.store().create_collection(&name, Doc::EMPTY)?;
        write(txn.store(), random)?;
    }
    match random.below(4) {
        0 => Ok(()),
        _ => txn.commit(Durability::Buffered).map(drop),
    }
}

pub(crate) fn change_catalog(store: &Store, random: &mut Random) -> Result<()> {
    let name = namespace(random);
    match random.below(5) {
        0 => store.create_collection(&name, Doc::EMPTY).map(drop),
        1 => store.drop_collection(&name).map(drop),
        2 => {
            let options = Rename { drop_target: true, ..Rename::default() };
            store.rename_collection(&name, &namespace(random), options, &|| Ok(()))
        }
        3 => {
            let spec = json::parse("{key: {v: 1}, name: 'v_1'}").unwrap();
            store.create_indexes(&name, &[spec.as_doc()], BuildOptions::default()).map(drop)
        }
        _ => store.drop_indexes(&name, IndexSelector::All).map(drop),
    }
}

pub(crate) type Act = fn(&Store, &mut Random) -> Result<()>;
