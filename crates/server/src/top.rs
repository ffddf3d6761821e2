//! Time and number of operations by collection, for `top`.
//!
//! A request finds its collection's entry by a 64-bit hash of the name, so nothing is allocated for a
//! collection seen before. Two names with one hash would share an entry: a statistic can bear that.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use foldhash::fast::{FixedState, RandomState};
use nagi_bson::{DocWriter, Value};
use parking_lot::Mutex;

use crate::metrics::{LatencyKind, OpKind};
use crate::request::Request;

const SHARD_COUNT: usize = 16;
/// Entries beyond this many are not begun: names come from clients.
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

    fn write(self, name: &str, out: &mut DocWriter<'_>) {
        out.doc(name, |doc| {
            doc.put("time", self.micros as i64);
            doc.put("count", self.count as i64);
        });
    }
}

#[derive(Default, Clone)]
struct Entry {
    namespace: String,
    read: Usage,
    write: Usage,
    by_kind: [Usage; 6],
}

/// Usage of all collections.
#[derive(Default)]
pub(crate) struct Top {
    shards: [Mutex<HashMap<u64, Entry, RandomState>>; SHARD_COUNT],
}

impl Top {
    /// Counts a finished request.
    pub(crate) fn record(&self, request: &Request<'_>, micros: u64) {
        let named = match request.command.counts_as {
            OpKind::GetMore => request.body.get("collection"),
            _ => request.body.first().map_or(Value::Missing, |first| first.value()),
        };
        // What was just dropped shall not be listed again.
        let Value::String(collection) = named else { return };
        if request.command.name == "drop" {
            return;
        }
        let key = FixedState::with_seed(1).hash_one((request.db, collection));
        let mut shard = self.shards[key as usize % SHARD_COUNT].lock();
        if shard.len() >= ENTRY_COUNT_MAX / SHARD_COUNT && !shard.contains_key(&key) {
            return;
        }
        let entry = shard.entry(key).or_insert_with(|| Entry {
            namespace: format!("{}.{collection}", request.db),
            ..Entry::default()
        });
        match request.command.latency {
            LatencyKind::Read => entry.read.add(micros),
            LatencyKind::Write => entry.write.add(micros),
            LatencyKind::Command => {}
        }
        entry.by_kind[kind_index(request.command.counts_as)].add(micros);
    }

    /// Forgets collections that were dropped: those whose namespace `is_gone` picks.
    pub(crate) fn forget(&self, is_gone: impl Fn(&str) -> bool) {
        for shard in &self.shards {
            shard.lock().retain(|_, entry| !is_gone(&entry.namespace));
        }
    }

    /// Appends `totals`.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("totals", |totals| {
            totals.put("note", "all times in microseconds");
            let mut sorted = BTreeMap::new();
            for shard in &self.shards {
                for entry in shard.lock().values() {
                    sorted.insert(entry.namespace.clone(), entry.clone());
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
