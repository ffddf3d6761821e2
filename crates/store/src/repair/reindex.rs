//! Rebuilds the indexes of a collection from its records.
//!
//! The new indexes are built beside the old ones, as in any index build; then they replace them under the same
//! names. During the build reads use the old indexes and writers maintain both.

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use crate::{
    BuildOptions, Collection, Index, Namespace, Store, WriteOptions,
    build::{Build, bulk::dropped, of_build, to_build},
    engine_error::engine,
    repair::validate::ValidateReport,
    store::ddl::{Ddl, refuse_view},
};

/// The result of [`Store::repair`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// True if anything was repaired.
    pub any: bool,
    /// Records that were not valid documents and were moved to the lost and found.
    pub corrupt_records: i64,
}

impl Store {
    /// `reIndex`: rebuilds all indexes and returns their number. Codes 26, 166, 12587, 11000.
    pub fn reindex(&self, namespace: &Namespace, options: BuildOptions<'_>) -> Result<usize> {
        let _building = self.members.as_ref().map(|members| members.begin_build());
        let (old, build) = self.start_again(namespace)?;
        let built = self
            .fill_indexes(&build, options)
            .and_then(|()| self.judge_all(&build, options))
            .and_then(|()| self.replace(&old, &build));
        let built = built
            .or_else(|error| self.give_up(&build).and(Err(of_build(error, &build.collection))));
        self.build_ended.notify_all();
        built
    }

    /// Publishes a second, empty index beside each existing one. Returns the existing indexes and the build.
    fn start_again(&self, namespace: &Namespace) -> Result<(Vec<Arc<Index>>, Build)> {
        let mut ddl = Ddl::changing(self, &|catalog| {
            catalog.collection(namespace).cloned().into_iter().collect()
        })?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "collection does not exist");
        };
        refuse_view(&collection)?;
        collection.refuse_while_building()?;
        // A clustered index, whose entries are the records, needs no build.
        let old: Vec<_> = collection.written_indexes().cloned().collect();
        let specs = old.iter().map(|index| index.spec.clone()).collect();
        let indexes = to_build(&mut ddl, &collection, specs, true)?;
        let all = collection.indexes.iter().chain(&indexes).cloned().collect();
        let collection = ddl.put(collection.with_indexes(all))?;
        ddl.finish()?;
        Ok((old, Build { collection, indexes }))
    }

    /// Replaces the old indexes by the new ones in one step: at no time, not even after a crash, do two indexes of
    /// one name exist that plans may use. Returns their number.
    fn replace(&self, old: &[Arc<Index>], build: &Build) -> Result<usize> {
        let mut ddl = Ddl::changing(self, &|catalog| build.of(catalog))?;
        let current = self.newest_of(build)?;
        let is_old = |index: &Index| old.iter().any(|old| old.ident == index.ident);
        let lasting = |name: &str| current.indexes.iter().any(|i| is_old(i) && i.name() == name);
        let (mut kept, mut doomed) = (Vec::new(), Vec::new());
        for index in &current.indexes {
            match build.owns(index) {
                true if lasting(index.name()) => {
                    kept.push(Arc::new(index.changed(index.spec.clone(), true)?));
                }
                // An index that was dropped during the build is not restored.
                true => doomed.push(Arc::clone(index)),
                false if is_old(index) => doomed.push(Arc::clone(index)),
                false => kept.push(Arc::clone(index)),
            }
        }
        if let Some(missing) = build.indexes.iter().find(|own| {
            lasting(own.name()) && !current.indexes.iter().any(|index| index.ident == own.ident)
        }) {
            return Err(dropped(missing.name()));
        }
        for index in &doomed {
            ddl.remove_index(index)?;
        }
        let count = kept.len();
        ddl.put(current.with_indexes(kept))?;
        ddl.finish()?;
        Ok(count)
    }

    /// Repairs the problems that `validate` found: invalid records are moved to the lost and found, then the
    /// counters are corrected, then the indexes are rebuilt.
    pub fn repair(
        &self,
        collection: &Collection,
        report: &ValidateReport,
        options: BuildOptions<'_>,
    ) -> Result<Repaired> {
        if report.errors.is_empty() {
            return Ok(Repaired::default());
        }
        let mut again = None;
        let mut repaired = Repaired { any: true, ..Repaired::default() };
        if report.invalid_count > 0 || report.misplaced_count > 0 {
            repaired.corrupt_records = self.quarantine_corrupt(collection, options.interrupt)?;
            let go_on = || Ok(());
            let interrupt = options.interrupt.unwrap_or(&go_on);
            again = Some(self.validate_with(collection, false, &|_| interrupt())?);
        }
        let report = again.as_ref().unwrap_or(report);
        let (count, bytes) = (report.count_off, report.bytes_off);
        if (count, bytes) != (0, 0) {
            let write = WriteOptions { interrupt: options.interrupt, ..WriteOptions::default() };
            self.write_value(write, &mut |txn| {
                // Written past the counter sums of the transaction, which cover only its own inserts.
                let key = collection.ident.bytes();
                txn.txn().add(Space::Counters, &key, &[-count, -bytes]).map_err(engine)
            })?;
            collection.state.add_to_counters(-count, -bytes);
        }
        // The change log has no indexes, and nothing else to repair.
        if !collection.shows_log() {
            self.reindex(&collection.namespace, options)?;
        }
        Ok(repaired)
    }
}
