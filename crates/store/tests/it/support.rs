//! Helpers of the tests: a store, documents from text, consistency checks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nagi_bson::{Doc, DocBuf, json, text::doc_text};
use nagi_error::Result;
use nagi_kv::{Engine, Memory};
use nagi_store::{
    BuildOptions, Collection, CommitStamp, CreatedIndexes, Namespace, NodeMode, RecordId, Store,
    StoreOptions, WriteOptions, WriteTxn,
};

pub(crate) struct Fixture {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) namespace: Namespace,
}

pub(crate) fn parse(text: &str) -> DocBuf {
    json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Fixture {
    /// An empty store with an empty collection `d.c`.
    pub(crate) fn new() -> Fixture {
        Fixture::on_engine(crate::engine())
    }

    /// The same with a clustered collection.
    pub(crate) fn clustered() -> Fixture {
        let f = Fixture::new();
        f.store.drop_collection(&f.namespace).unwrap();
        let options = parse("{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}}");
        f.store.create_collection(&f.namespace, options.as_doc()).unwrap();
        f
    }

    /// An empty collection of each kind.
    pub(crate) fn each() -> [Fixture; 2] {
        [Fixture::new(), Fixture::clustered()]
    }

    pub(crate) fn on(engine: Memory) -> Fixture {
        Fixture::on_engine(Arc::new(engine))
    }

    fn on_engine(engine: Arc<dyn Engine>) -> Fixture {
        let store = Store::open(Arc::clone(&engine), crate::options()).unwrap();
        let namespace = Namespace::parse("d.c").unwrap();
        store.create_collection(&namespace, Doc::EMPTY).unwrap();
        Fixture { engine, store, namespace }
    }

    /// Opens the same data again, after the old store was closed as at the exit of a process, including its
    /// background work.
    pub(crate) fn reopen(&mut self) {
        self.close();
        self.store = Store::open(Arc::clone(&self.engine), crate::options()).unwrap();
    }

    /// Opens the same data in a second store, as if the first one had been killed.
    pub(crate) fn take_over(&self) -> Arc<Store> {
        loop {
            if !self.engine.capabilities().only_writer {
                pass(&*self.engine, 20);
            }
            let store = Store::open(Arc::clone(&self.engine), crate::options()).unwrap();
            // The first one is not really dead: perhaps it has renewed its lease meanwhile.
            if seat_count(&*self.engine) <= 1 {
                return store;
            }
            store.close().unwrap();
        }
    }

    /// Closes the store.
    pub(crate) fn close(&mut self) {
        self.store = Store::open(Arc::new(Memory::new()), StoreOptions::default()).unwrap();
        // The thread of a node that shares the data may have the store for a moment longer.
        while seat_count(&*self.engine) > 0 {
            std::thread::yield_now();
        }
    }

    pub(crate) fn collection(&self) -> Arc<Collection> {
        self.store.collection(&self.namespace).unwrap()
    }

    pub(crate) fn insert(&self, text: &str) -> Result<RecordId> {
        let (collection, doc) = (self.collection(), parse(text));
        let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc());
        Ok(self.store.write(WriteOptions::default(), insert)?.value)
    }

    pub(crate) fn index(&self, spec: &str) -> Result<CreatedIndexes> {
        let spec = parse(spec);
        self.store.create_indexes(&self.namespace, &[spec.as_doc()], BuildOptions::default())
    }

    /// `_id`s of the records that an index points to, in the order of the index.
    pub(crate) fn ids(&self, index: &str) -> String {
        let collection = self.collection();
        let snapshot = self.store.snapshot().unwrap();
        let reader = snapshot.reader();
        let index = collection.index(index).unwrap();
        let mut cursor = reader.index_cursor(index, true, &[], &[]).unwrap();
        let (mut ids, mut buf) = (Vec::new(), nagi_store::RecordBuf::default());
        while cursor.advance().unwrap() {
            let doc = reader.record(&collection, cursor.record_id(), &mut buf).unwrap().unwrap();
            ids.push(doc.get("_id").to_string());
        }
        ids.join(" ")
    }

    /// All documents in the order of insertion.
    pub(crate) fn docs(&self) -> String {
        let mut cursor = self.store.latest().scan(&self.collection(), true).unwrap();
        let mut docs = Vec::new();
        while cursor.advance().unwrap() {
            docs.push(doc_text(cursor.doc()));
        }
        docs.join(" ")
    }

    /// Makes the counters five documents too high and deletes an index entry, bypassing the store.
    pub(crate) fn damage(&self) {
        let mut txn = self.engine.begin(nagi_kv::TxnOptions::default()).unwrap();
        let first = |txn: &dyn nagi_kv::Txn, space, back: bool| {
            let mut cursor = txn.cursor(space, &[], &[0xFF; 5]).unwrap();
            let found = if back { cursor.seek_back(&[0xFF; 5]) } else { cursor.seek(&[]) };
            assert!(found.unwrap());
            cursor.key().to_vec()
        };
        let counters = first(&*txn, nagi_kv::Space::Counters, false);
        txn.add(nagi_kv::Space::Counters, &counters, &[5, 100]).unwrap();
        let entry = first(&*txn, nagi_kv::Space::Index, true);
        txn.delete(nagi_kv::Space::Index, &entry).unwrap();
        txn.commit(nagi_kv::Durability::Buffered).unwrap();
    }

    pub(crate) fn check_valid(&self) {
        let report = self.store.validate(&self.collection()).unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        assert_eq!(report.record_count, self.collection().count());
        assert_eq!(report.data_bytes, self.collection().data_bytes());
    }
}

/// The engine's form of a key of records or of the index on `_id`, as docs/format.md has it.
pub(crate) fn placed(key: Vec<u8>) -> Vec<u8> {
    let power = match key[0] {
        high @ 0x80..0xD0 => (high >> 4) - 7,
        _ => return key,
    };
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in &key[4..] {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    }
    for factor in [0xFF51_AFD7_ED55_8CCD_u64, 0xC4CE_B9FE_1A85_EC53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    let stripe = (hash ^ hash >> 33) >> (64 - power);
    [&key[..4], &[stripe as u8], &key[4..]].concat()
}

/// True if the store of the tests is one of several.
pub(crate) fn is_shared() -> bool {
    crate::options().node.mode == NodeMode::Member
}

/// The number of nodes that share the data.
pub(crate) fn seat_count(engine: &dyn Engine) -> usize {
    let mut cursor = engine.latest().cursor(nagi_kv::Space::Catalog, &[11], &[12]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[11]).unwrap());
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

/// Lets time pass for the stamps of an engine that takes them from an oracle.
pub(crate) fn pass(engine: &dyn Engine, seconds: u64) {
    for _ in 0..seconds {
        engine.advance(CommitStamp(engine.clock().greatest() + (1 << 32))).unwrap();
    }
}

/// Code and message of an error.
pub(crate) fn error<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => format!("{}: {}", error.code().0, error.message()),
    }
}

/// Tells threads to finish, also if the test fails.
#[derive(Default)]
pub(crate) struct Done(pub(crate) AtomicBool);

pub(crate) struct DoneGuard<'d>(&'d Done);

impl Done {
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn guard(&self) -> DoneGuard<'_> {
        DoneGuard(self)
    }
}

impl Drop for DoneGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}
