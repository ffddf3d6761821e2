//! Bulk index builds, for collections that are not small: keys are sorted and then written in order.
//!
//! ```text
//!   publish; writers log their changes  ->  scan all records, sort their keys in bounded memory
//!     ->  load the keys in order  ->  drain the log
//!     ->  publish; writers write keys themselves  ->  drain the rest of the log
//! ```
//!
//! The log of an index is a key range of its own, the side range. For each key that a writer adds to a record or
//! removes from it, the log has the record and the key, but not the operation. The drain locks the record, reads
//! it, and makes the index have the key exactly if the record has it at present. That is correct whatever the scan
//! has seen, and can be repeated. So the scan reads the newest data without a snapshot and takes no locks, and only
//! the load writes the index while it runs.
//!
//! Two records with the same key of a unique index, as seen by the scan, may never have had the key at the same
//! time. So the later one's entry is stored under key and record key, as for a writer, and the key is doubtful
//! until the end ([`crate::build::deferred`]).
//!
//! A crash leaves an index that is not ready; the next start drops its range and its side range.

mod load;
mod merge;
mod meter;
mod run;
mod segment;
mod side;
mod sorter;

use std::sync::Arc;

use nagi_error::{Code, Error, Result, err};

use crate::{
    BuildOptions, Collection, Index, RecordId, Store, WriteOptions, build::Build,
    index::keygen::KeySink, store::txn::fill_sink,
};
pub(crate) use meter::Meter;
use sorter::{Allowance, Sorter};

/// Collections with fewer documents are indexed record by record.
const RECORDS_MIN: i64 = if cfg!(feature = "shuttle") { 4 } else { 1000 };
/// Default memory for keys.
const MEMORY_BYTES: u64 = 200 << 20;
/// Records between two interrupt checks.
const ASK_EACH: u64 = 32;
/// Records read through one cursor, which keeps old versions from being removed.
const CURSOR_RECORDS: u64 = 4096;
/// Limit of drains while writers still append to the log.
const DRAINS_MAX: usize = 4;
/// With at most this many changes left, the log is drained for the last time.
const DRAINED_MIN: u64 = 1000;

/// The error of a build whose index is no longer wanted.
pub(crate) fn dropped(name: &str) -> Error {
    err!(
        Code::INDEX_BUILD_ABORTED,
        "Index build: index '{name}' was dropped while it was being built"
    )
}

/// Returns true if indexes of this collection are built in bulk.
pub(crate) fn is_worth_it(collection: &Collection) -> bool {
    collection.count() >= RECORDS_MIN
}

impl Store {
    /// Fills indexes whose changes are being logged with the keys of all records. Afterwards writers write their
    /// keys.
    pub(crate) fn fill_in_bulk(&self, build: &Build, options: BuildOptions<'_>) -> Result<()> {
        let Build { collection, indexes } = build;
        let go_on = || {
            options.interrupt.map_or(Ok(()), |interrupt| interrupt())?;
            self.check_wanted(collection, indexes)
        };
        let mut allowance =
            Allowance::new(self, options.memory_bytes.unwrap_or(MEMORY_BYTES), indexes.len());
        let sorters = self.scan_keys(collection, indexes, options, &mut allowance, &go_on)?;
        for (index, sorter) in indexes.iter().zip(sorters) {
            let sorted = sorter.finish(self, &mut allowance, &go_on)?;
            let held = sorted.held;
            load::load(self, collection, index, sorted, options, &go_on)?;
            allowance.give_back(held);
        }
        drop(allowance);
        let direct = indexes.iter().map(|index| index.direct().map(Arc::new));
        let direct = direct.collect::<Result<Vec<_>>>()?;
        let drain = |meter: &mut Meter| {
            let mut done = 0;
            for index in &direct {
                done += side::drain(self, collection, index, options, &go_on, meter)?;
            }
            Ok::<_, Error>(done)
        };
        let mut meter = Meter::new("Index Build: draining writes received during build", 0);
        for _ in 0..DRAINS_MAX {
            if drain(&mut meter)? < DRAINED_MIN {
                break;
            }
        }
        self.republish(build, nagi_kv::Durability::Buffered, &|index| index.direct())?;
        while drain(&mut meter)? > 0 {}
        log::info!(target: "INDEX", id = 20689, namespace = collection.namespace.as_str(),
            numApplied = meter.done(); "Index build: drained side writes");
        Ok(())
    }

    /// Fails once the collection or one of the indexes was dropped.
    pub(crate) fn check_wanted(&self, built: &Collection, indexes: &[Arc<Index>]) -> Result<()> {
        let Some(current) = built.state.current() else {
            return Err(err!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", built.uuid));
        };
        let is_there = |index: &&Arc<Index>| current.indexes.iter().any(|i| i.ident == index.ident);
        match indexes.iter().find(|index| !is_there(index)) {
            Some(gone) => Err(dropped(gone.name())),
            None => Ok(()),
        }
    }

    /// Scans the records once for all indexes.
    fn scan_keys(
        &self,
        collection: &Arc<Collection>,
        indexes: &[Arc<Index>],
        options: BuildOptions<'_>,
        allowance: &mut Allowance,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<Sorter>> {
        let mut sorters: Vec<Sorter> = indexes.iter().map(|_| Sorter::default()).collect();
        let mut arrays: Vec<Vec<u64>> = vec![Vec::new(); indexes.len()];
        let mut meter = Meter::new("Index Build: scanning collection", collection.count());
        // Later records are in the logs.
        let mut newest = self.latest().scan(collection, false)?;
        let end = newest.advance()?.then(|| newest.id().to_id());
        drop(newest);
        let mut sink = KeySink::default();
        let (mut done, mut last) = (0u64, None::<RecordId>);
        'scan: loop {
            let mut scan = self.latest().scan(collection, true)?;
            if let Some(last) = &last {
                scan.resume_after(last.key());
            }
            for _ in 0..CURSOR_RECORDS {
                if done.is_multiple_of(ASK_EACH) {
                    go_on()?;
                    if done > 0 {
                        meter.at(done, options);
                    }
                }
                if !scan.advance()? || end.as_ref().is_none_or(|end| scan.id() > end.key()) {
                    break 'scan;
                }
                done += 1;
                let doc = scan.checked_doc()?;
                for ((index, sorter), arrays) in indexes.iter().zip(&mut sorters).zip(&mut arrays) {
                    fill_sink(index, doc, &mut sink)?;
                    if sink.len() > 0 && sink.is_multikey() {
                        arrays.resize(sink.multikey.len().max(arrays.len()), 0);
                        arrays.iter_mut().zip(&sink.multikey).for_each(|(all, new)| *all |= new);
                    }
                    for key in sink.iter() {
                        sorter.add(key, scan.id(), self, allowance, go_on)?;
                    }
                }
            }
            last = Some(scan.id().to_id());
        }
        meter.at(done, options);
        self.note_arrays(collection, indexes, &arrays, options)?;
        log::info!(target: "INDEX", id = 20391, namespace = collection.namespace.as_str(),
            totalRecords = done; "Index build: collection scan done");
        Ok(sorters)
    }

    /// Stores the paths on which the scan has found arrays.
    fn note_arrays(
        &self,
        collection: &Collection,
        indexes: &[Arc<Index>],
        arrays: &[Vec<u64>],
        options: BuildOptions<'_>,
    ) -> Result<()> {
        let write = WriteOptions { interrupt: options.interrupt, ..WriteOptions::default() };
        self.write_value(write, &mut |txn| {
            txn.touch(collection)?;
            // A drop of an index removes these after the writers in progress have left.
            self.check_wanted(collection, indexes)?;
            let found = indexes.iter().zip(arrays).filter(|(_, arrays)| !arrays.is_empty());
            for (index, arrays) in found {
                txn.note_multikey(index, arrays)?;
            }
            Ok(())
        })
    }
}
