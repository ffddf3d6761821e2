//! Building the indexes of a collection again, from its records.
//!
//! New indexes are built beside the old ones, as any index is; then they take their names. Reads use
//! the old ones meanwhile, writers keep both.

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use crate::{
    BuildOptions, Collection, Index, Namespace, Store, WriteOptions,
    build::{in_bulk, of_build, unready},
    catalog::{Ddl, refuse_view},
    engine_error::engine,
    index::{Multikey, multikey_words},
    validate::ValidateReport,
};

/// What [`Store::repair`] has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// Whether there was anything to do.
    pub any: bool,
    /// Records that were no documents and are in the lost and found now.
    pub corrupt_records: i64,
}

impl Store {
    /// `reIndex`: builds all indexes again; gives back how many. Codes 26, 166, 12587, 11000.
    pub fn reindex(&self, namespace: &Namespace, options: BuildOptions<'_>) -> Result<usize> {
        let (old, built) = self.start_again(namespace)?;
        let filled = self.fill_indexes(&built, options);
        if let Err(error) = filled.and_then(|()| self.finish(&built, options)) {
            return self.give_up(&built).and(Err(of_build(error, &built)));
        }
        let mut ddl = Ddl::begin(self)?;
        let Some(current) = self.newest(&built) else {
            bail!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", built.uuid);
        };
        let is_old = |index: &&Arc<Index>| old.iter().any(|old| old.ident == index.ident);
        let copies = unready(&built);
        let is_copy = |index: &Index| copies.iter().any(|copy| copy.ident == index.ident);
        let lasting = |name: &str| current.indexes.iter().filter(is_old).any(|i| i.name() == name);
        let (mut kept, mut doomed) = (Vec::new(), Vec::new());
        for index in &current.indexes {
            // What was dropped meanwhile does not come back.
            let orphan = is_copy(index) && !lasting(index.name());
            let list = if is_old(&index) || orphan { &mut doomed } else { &mut kept };
            list.push(Arc::clone(index));
        }
        for index in &doomed {
            ddl.remove_index(index)?;
        }
        let count = kept.len();
        ddl.put(current.with_indexes(kept))?;
        ddl.finish()?;
        Ok(count)
    }

    /// Publishes a second, empty index beside each; gives back the first ones, and the collection.
    fn start_again(&self, namespace: &Namespace) -> Result<(Vec<Arc<Index>>, Arc<Collection>)> {
        let mut ddl = Ddl::begin(self)?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "collection does not exist");
        };
        refuse_view(&collection)?;
        if !unready(&collection).is_empty() {
            bail!(
                Code::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE,
                "cannot perform operation: an index build is currently running for collection \
                 '{namespace}'"
            );
        }
        let old = collection.indexes.to_vec();
        let mut all = old.clone();
        for index in &old {
            let multikey = Arc::new(Multikey::new(multikey_words(&index.spec)));
            let again = Index::new(index.spec.clone(), false, ddl.ident()?, multikey)?;
            all.push(Arc::new(in_bulk(&mut ddl, &collection, again)?));
        }
        let built = ddl.put(collection.with_indexes(all))?;
        ddl.finish()?;
        Ok((old, built))
    }

    /// Takes out what a build that failed or was interrupted has published.
    pub(crate) fn give_up(&self, built: &Collection) -> Result<()> {
        let mut ddl = Ddl::begin(self)?;
        let Some(current) = self.newest(built) else { return Ok(()) };
        let mine = unready(built);
        let is_mine = |index: &&Arc<Index>| mine.iter().any(|own| own.ident == index.ident);
        let doomed: Vec<_> = current.indexes.iter().filter(is_mine).cloned().collect();
        if doomed.is_empty() {
            return Ok(());
        }
        for index in &doomed {
            ddl.remove_index(index)?;
        }
        let kept = current.indexes.iter().filter(|index| !is_mine(index)).cloned().collect();
        ddl.put(current.with_indexes(kept))?;
        ddl.finish()
    }

    /// Mends what `validate` has found: records that are none are moved to the lost and found, then the
    /// counters are set right, then the indexes built again.
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
        if report.invalid_count > 0 {
            repaired.corrupt_records = self.set_aside_corrupt(collection, options.interrupt)?;
            let go_on = || Ok(());
            let interrupt = options.interrupt.unwrap_or(&go_on);
            again = Some(self.validate_with(collection, false, interrupt)?);
        }
        let report = again.as_ref().unwrap_or(report);
        let (count, bytes) = (report.count_off, report.bytes_off);
        if (count, bytes) != (0, 0) {
            let write = WriteOptions { interrupt: options.interrupt, ..WriteOptions::default() };
            self.write(write, &mut |txn| {
                // Written past the sums of the transaction, which follow what it inserts.
                let key = collection.ident.bytes();
                txn.txn().add(Space::Counters, &key, &[-count, -bytes]).map_err(engine)
            })?;
            collection.add_to_counters(-count, -bytes);
        }
        self.reindex(&collection.namespace, options)?;
        Ok(repaired)
    }
}
