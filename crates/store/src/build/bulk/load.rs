//! Loads sorted keys into an index that no other thread writes.

use nagi_error::Result;
use nagi_kv::Space;

use super::{Meter, sorter::Sorted};
use crate::{
    BuildOptions, Collection, Index, RecordBuf, RecordId, Store, clock,
    engine_error::engine,
    index::keygen::KeySink,
    store::txn::{duplicate_key, fill_sink},
};

/// Keys between two interrupt checks.
const ASK_EACH: u64 = 512;
/// Number of entries stored under other keys after which the build checks if it can succeed at all.
const TWINS_MAX: u64 = 10_000;

/// Writes all keys of the index.
///
/// # Errors
/// Errors of `go_on` and of the engine, and 11000 if very many records have keys of others.
pub(super) fn load(
    store: &Store,
    built: &Collection,
    index: &Index,
    sorted: Sorted,
    options: BuildOptions<'_>,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let _loading = index.bulk.as_ref().map(|bulk| bulk.loading.lock());
    // Checked under the lock: a later drop waits for the load, and an earlier one is detected here.
    go_on()?;
    let begin_ms = clock::now_ms();
    let count = sorted.count;
    let name = "Index Build: inserting keys from external sorter into index";
    let mut meter = Meter::new(name, count as i64);
    let mut entries = Entries { store, built, index, sorted, twins: Twins::default() };
    let (mut done, mut failed) = (0u64, None);
    let result = store.engine.load(Space::Index, &mut |key, value| {
        let mut next = || {
            if done.is_multiple_of(ASK_EACH) {
                go_on()?;
                meter.at(done, options);
            }
            done += 1;
            entries.next(key, value)
        };
        next().map_err(|error| {
            failed = Some(error);
            nagi_kv::Error::other("the source of a load failed")
        })
    });
    match failed {
        Some(error) => return Err(error),
        None => result.map_err(engine)?,
    }
    meter.at(count, options);
    log::info!(target: "INDEX", id = 20685, namespace = built.namespace.as_str(),
        index = index.name(), keysInserted = count, durationMillis = clock::now_ms() - begin_ms;
        "Index build: inserted keys from external sorter into index");
    Ok(())
}

struct Entries<'b> {
    store: &'b Store,
    built: &'b Collection,
    index: &'b Index,
    sorted: Sorted,
    twins: Twins,
}

/// For a unique index: the last written key, its record, and the number of records with another record's key.
#[derive(Default)]
struct Twins {
    key: Vec<u8>,
    owner: Option<RecordId>,
    /// True if the key is already recorded as doubtful.
    is_noted: bool,
    count: u64,
}

impl Entries<'_> {
    /// The next entry in its stored form. Returns false at the end.
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        key.clear();
        value.clear();
        if !self.sorted.merge.advance()? {
            return Ok(false);
        }
        let (full, bits) = (self.sorted.merge.key(), self.sorted.merge.bits());
        key.extend_from_slice(&self.index.ident.bytes());
        let Some((body, id)) = self.index.layout.split_tail(full) else { return Ok(true) };
        key.extend_from_slice(body);
        if !self.index.keyed_alone {
            id.append_tail(key);
            value.extend_from_slice(bits);
            return Ok(true);
        }
        let owner = self.twins.owner.as_ref().filter(|_| self.twins.key == body);
        if let Some(owner) = owner {
            id.append_tail(key);
            value.extend_from_slice(bits);
            let (owner, other) = (owner.clone(), id.to_id());
            self.meet(&owner, &other)?;
            return Ok(true);
        }
        id.append_head(value);
        value.extend_from_slice(bits);
        self.twins.key.clear();
        self.twins.key.extend_from_slice(body);
        self.twins.owner = Some(id.to_id());
        self.twins.is_noted = false;
        Ok(true)
    }

    /// Handles a second record with the same key. It is decided at the end of the build, unless there are so many
    /// that waiting does not help.
    fn meet(&mut self, owner: &RecordId, other: &RecordId) -> Result<()> {
        self.twins.count += 1;
        if !std::mem::replace(&mut self.twins.is_noted, true)
            && let Some(deferred) = &self.index.deferred
        {
            deferred.add_any(&self.twins.key);
        }
        let is_hopeless =
            self.twins.count > TWINS_MAX && self.has_key(owner)? && self.has_key(other)?;
        match is_hopeless {
            true => {
                let bits = self.sorted.merge.bits();
                Err(duplicate_key(self.built, self.index, &self.twins.key, bits))
            }
            false => Ok(()),
        }
    }

    /// Returns true if the record has the key at present.
    fn has_key(&self, id: &RecordId) -> Result<bool> {
        let mut buf = RecordBuf::default();
        let Some(doc) = self.store.latest().record(self.built, id.key(), &mut buf)? else {
            return Ok(false);
        };
        let mut sink = KeySink::default();
        fill_sink(self.index, doc, &mut sink)?;
        Ok(sink.iter().any(|(key, _)| key == self.twins.key))
    }
}
