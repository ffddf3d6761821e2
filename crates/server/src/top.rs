//! Time and number of operations by collection, for `top` and `$collStats`: each core has its own entries, and a
//! listing sums them.
//!
//! An entry is found by a 64-bit hash of the namespace, so a request allocates nothing for a collection seen before.
//! Two namespaces with the same hash would share an entry, which is acceptable for statistics.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use nagi_bson::{DocWriter, Value};
use nagi_percore::PerCore;
use nagi_store::Namespace;
use parking_lot::Mutex;

use crate::metrics::latency::{BUCKET_COUNT, bucket, write_histogram};
use crate::metrics::{LatencyKind, OpKind};
use crate::request::Request;

/// The maximum number of entries per core: clients choose the names.
const ENTRY_COUNT_MAX: usize = 10_000;

#[derive(Default, Clone, Copy)]
struct Usage {
    micros: u64,
    count: u64,
}

impl Usage {
    fn add(&mut self, micros: u64) {
        self.micros += micros;
        self.count += 1;
    }

    fn merge(&mut self, other: Usage) {
        self.micros += other.micros;
        self.count += other.count;
    }

    fn write(self, name: &str, out: &mut DocWriter<'_>) {
        out.doc(name, |doc| {
            doc.put("time", self.micros as i64);
            doc.put("count", self.count as i64);
        });
    }
}

/// A histogram of the times of one kind of request.
#[derive(Clone)]
struct Histogram([u64; BUCKET_COUNT]);

impl Histogram {
    fn add(&mut self, micros: u64) {
        self.0[bucket(micros)] += 1;
    }
}

/// The histograms of reads, writes and commands.
type Histograms = [Histogram; 3];

#[derive(Default, Clone)]
struct Entry {
    namespace: String,
    read: Usage,
    write: Usage,
    by_kind: [Usage; 6],
    command: Usage,
    histograms: Option<Box<Histograms>>,
    scans: u64,
    tailable_scans: u64,
}

impl Entry {
    /// Adds another core's counts for the same collection.
    fn add(&mut self, other: &Entry) {
        self.namespace.clone_from(&other.namespace);
        self.read.merge(other.read);
        self.write.merge(other.write);
        self.command.merge(other.command);
        self.by_kind.iter_mut().zip(other.by_kind).for_each(|(own, other)| own.merge(other));
        self.scans += other.scans;
        self.tailable_scans += other.tailable_scans;
        if let Some(other) = &other.histograms {
            let own = self.histograms.get_or_insert_with(none_counted);
            for (own, other) in own.iter_mut().zip(&**other) {
                own.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
            }
        }
    }
}

fn none_counted() -> Box<Histograms> {
    Box::new([const { Histogram([0; BUCKET_COUNT]) }; 3])
}

/// Usage of all collections.
#[derive(Default)]
pub(crate) struct Top {
    shards: PerCore<Mutex<HashMap<u64, Entry, RandomState>>>,
    /// Hashes namespaces into the keys of the shards.
    hasher: RandomState,
}

impl Top {
    /// Counts a finished request; `scans`: how many of its statements read the whole collection.
    pub(crate) fn record(&self, request: &Request<'_>, micros: u64, scans: u64) {
        let named = match request.command.counts_as {
            OpKind::GetMore => request.body.get("collection"),
            _ => request.body.first().map_or(Value::Missing, |first| first.value()),
        };
        // A collection that was just dropped must not be listed again.
        let Value::String(collection) = named else { return };
        if request.command.drops {
            return;
        }
        let is_tailable = scans > 0 && request.body.get("tailable").is_truthy();
        self.change((request.db, collection), |entry| {
            let (usage, at) = match request.command.latency {
                LatencyKind::Read => (&mut entry.read, 0),
                LatencyKind::Write => (&mut entry.write, 1),
                LatencyKind::Command => (&mut entry.command, 2),
            };
            usage.add(micros);
            entry.histograms.get_or_insert_with(none_counted)[at].add(micros);
            entry.scans += scans;
            entry.tailable_scans += if is_tailable { scans } else { 0 };
            entry.by_kind[kind_index(request.command.counts_as)].add(micros);
        });
    }

    /// Counts a finished statement of `bulkWrite`, whose statements are on several collections.
    pub(crate) fn record_statement(
        &self,
        (db, collection): (&str, &str),
        kind: OpKind,
        micros: u64,
        scans: u64,
    ) {
        self.change((db, collection), |entry| {
            entry.write.add(micros);
            entry.histograms.get_or_insert_with(none_counted)[1].add(micros);
            entry.scans += scans;
            entry.by_kind[kind_index(kind)].add(micros);
        });
    }

    /// Changes this core's entry of a collection. Clients choose the names, so one that no collection can have gets
    /// none.
    fn change(&self, (db, collection): (&str, &str), change: impl FnOnce(&mut Entry)) {
        if db.len() + 1 + collection.len() > Namespace::BYTES_MAX {
            return;
        }
        let key = self.hasher.hash_one((db, collection));
        let mut shard = self.shards.own().lock();
        if shard.len() >= ENTRY_COUNT_MAX && !shard.contains_key(&key) {
            return;
        }
        let entry = shard.entry(key).or_insert_with(|| Entry {
            namespace: format!("{db}.{collection}"),
            ..Entry::default()
        });
        change(entry);
    }

    /// Forgets the collections whose namespace `is_gone` selects, after a drop.
    pub(crate) fn forget(&self, is_gone: impl Fn(&str) -> bool) {
        for shard in self.shards.iter() {
            shard.lock().retain(|_, entry| !is_gone(&entry.namespace));
        }
    }

    fn entry(&self, db: &str, collection: &str) -> Entry {
        let key = self.hasher.hash_one((db, collection));
        let mut sum = Entry::default();
        for shard in self.shards.iter() {
            if let Some(entry) = shard.lock().get(&key) {
                sum.add(entry);
            }
        }
        sum
    }

    /// The number of collection scans: all of them, and those that were not tailable.
    pub(crate) fn collection_scans(&self, db: &str, collection: &str) -> (u64, u64) {
        let entry = self.entry(db, collection);
        (entry.scans, entry.scans - entry.tailable_scans)
    }

    /// Appends the fields of `latencyStats`.
    pub(crate) fn write_latency(
        &self,
        db: &str,
        collection: &str,
        histograms: bool,
        out: &mut DocWriter<'_>,
    ) {
        let entry = self.entry(db, collection);
        let kinds = [("reads", entry.read), ("writes", entry.write), ("commands", entry.command)];
        for (at, (name, usage)) in kinds.into_iter().enumerate() {
            out.doc(name, |doc| {
                if histograms {
                    doc.array("histogram", |list| {
                        if let Some(all) = &entry.histograms {
                            write_histogram(&all[at].0, list);
                        }
                    });
                }
                doc.put("latency", usage.micros as i64);
                doc.put("ops", usage.count as i64);
            });
        }
        // Statements of transactions are counted under their own kinds.
        out.doc("transactions", |doc| {
            if histograms {
                doc.array("histogram", |_| ());
            }
            doc.put("latency", 0_i64);
            doc.put("ops", 0_i64);
        });
    }

    /// Appends `totals`.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("totals", |totals| {
            totals.put("note", "all times in microseconds");
            let mut sorted = BTreeMap::new();
            for shard in self.shards.iter() {
                for entry in shard.lock().values() {
                    let sum: &mut Entry = sorted.entry(entry.namespace.clone()).or_default();
                    sum.add(entry);
                }
            }
            sorted.values().for_each(|entry| write_entry(entry, totals));
        });
    }
}

fn kind_index(kind: OpKind) -> usize {
    match kind {
        OpKind::Query => 0,
        OpKind::GetMore => 1,
        OpKind::Insert => 2,
        OpKind::Update => 3,
        OpKind::Delete => 4,
        OpKind::Command => 5,
    }
}

fn write_entry(entry: &Entry, totals: &mut DocWriter<'_>) {
    let total = entry.by_kind.iter().fold(Usage::default(), |sum, one| Usage {
        micros: sum.micros + one.micros,
        count: sum.count + one.count,
    });
    totals.doc(&entry.namespace, |doc| {
        total.write("total", doc);
        entry.read.write("readLock", doc);
        entry.write.write("writeLock", doc);
        let names = ["queries", "getmore", "insert", "update", "remove", "commands"];
        for (name, usage) in names.iter().zip(entry.by_kind) {
            usage.write(name, doc);
        }
    });
}
