//! Dropping collections, databases and indexes.

use std::sync::Arc;

use nagi_bson::{Doc, Value, compare, text::doc_text};
use nagi_error::{Code, Result, bail};

use super::Ddl;
use crate::{
    Index, Namespace, Store,
    catalog::{Catalog, Collection, IndexSelector, Uuid},
    store::{
        commit::{change::Change, client::CatalogChange},
        time_series,
    },
};

impl Store {
    /// Drops a collection or view, or the buckets of a time series whose view is missing. Returns the dropped
    /// collection, or `None` if it did not exist. Takes milliseconds, independent of its size.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.drop_collection_of(namespace, None)
    }

    /// The same, with the precondition that the collection has the UUID `expected` (361).
    pub fn drop_collection_of(
        &self,
        namespace: &Namespace,
        expected: Option<Uuid>,
    ) -> Result<Option<Arc<Collection>>> {
        let mut ddl = Ddl::alone(self, &|catalog| {
            let collection = named(catalog, namespace);
            let other = collection.and_then(|found| time_series::other_half(catalog, found));
            collection.cloned().into_iter().chain(other).collect()
        })?;
        ddl.catalog.check_uuid(namespace, expected)?;
        let Some(collection) = named(&ddl.catalog, namespace).cloned() else { return Ok(None) };
        if let Some(other) = ddl.other_half(&collection) {
            ddl.remove(&other)?;
        }
        ddl.remove(&collection)?;
        ddl.finish()?;
        log::info!(target: "STORAGE", id = 20318, namespace = namespace.as_str(),
            uuid:% = collection.uuid; "Finishing collection drop");
        Ok(Some(collection))
    }

    /// Drops every collection of a database; returns false if there was none.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        let of = |catalog: &Catalog| catalog.database(database).cloned().collect::<Vec<_>>();
        let mut ddl = Ddl::alone(self, &of)?;
        let all = of(&ddl.catalog);
        for collection in &all {
            ddl.remove(collection)?;
        }
        if all.is_empty() {
            return Ok(false);
        }
        ddl.change(&Change::DatabaseDropped(database))?;
        if let Some(noted) = &mut ddl.noted {
            noted.push(CatalogChange::DatabaseDropped(database.to_owned()));
        }
        ddl.finish()?;
        log::info!(target: "COMMAND", id = 20336, db = database; "dropDatabase");
        Ok(true)
    }

    /// Drops indexes and returns the previous number of indexes. The builds of unfinished indexes are aborted.
    /// Codes 20, 26, 27, 72, 166, 181; 12587 for a part of the indexes of one build.
    pub fn drop_indexes(&self, namespace: &Namespace, which: IndexSelector<'_>) -> Result<usize> {
        let mut ddl = Ddl::changing(self, &|catalog| {
            catalog.collection(namespace).cloned().into_iter().collect()
        })?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "ns not found {namespace}");
        };
        refuse_view(&collection)?;
        self.refuse_live_log(&collection, "change")?;
        let dropped = select_indexes(&collection, &which)?;
        refuse_part_of_build(&collection, &dropped)?;
        let before = collection.named_indexes().count();
        if dropped.is_empty() {
            return Ok(before);
        }
        // One version for each, so that the log has an entry for each: the tools that read logs know no other form.
        let mut latest = collection;
        for index in &dropped {
            ddl.remove_index(index)?;
            let kept = latest.indexes.iter().filter(|kept| kept.ident != index.ident).cloned();
            latest = ddl.put(latest.with_indexes(kept.collect()))?;
        }
        ddl.finish()?;
        for index in &dropped {
            log::info!(target: "INDEX", id = 4715601, namespace = namespace.as_str(),
                index = index.name(); "Index dropped");
        }
        Ok(before)
    }
}

/// What is dropped by this name.
fn named<'c>(catalog: &'c Catalog, namespace: &Namespace) -> Option<&'c Arc<Collection>> {
    catalog.collection(namespace).or_else(|| catalog.lone_buckets_of(namespace))
}

pub(crate) fn refuse_view(collection: &Collection) -> Result<()> {
    if collection.is_view() {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {} is a view, not a collection",
            collection.namespace
        );
    }
    Ok(())
}

fn select_indexes(collection: &Collection, which: &IndexSelector<'_>) -> Result<Vec<Arc<Index>>> {
    let by_name = |name: &str| -> Result<Vec<Arc<Index>>> {
        match collection.index(name) {
            Some(index) => Ok(vec![Arc::clone(index)]),
            None => bail!(Code::INDEX_NOT_FOUND, "index not found with name [{name}]"),
        }
    };
    let selected = match which {
        IndexSelector::All => {
            return Ok(collection.indexes.iter().filter(|i| !i.spec.is_id()).cloned().collect());
        }
        IndexSelector::Name(name) => by_name(name)?,
        IndexSelector::Names(names) => {
            let mut all = Vec::new();
            for name in names {
                all.extend(by_name(name)?);
            }
            all
        }
        IndexSelector::Key(key) => vec![find_by_key(collection, *key)?],
    };
    if collection.options.clustered.is_some() && selected.iter().any(|index| index.spec.is_id()) {
        bail!(Code::Location(5_979_800), "It is illegal to drop the clusteredIndex");
    }
    if selected.iter().any(|index| index.spec.is_id()) {
        bail!(Code::INVALID_OPTIONS, "cannot drop _id index");
    }
    Ok(selected)
}

/// A build is aborted as a whole: its indexes are dropped together or not at all (12587).
fn refuse_part_of_build(collection: &Collection, dropped: &[Arc<Index>]) -> Result<()> {
    let is_dropped = |index: &Index| dropped.iter().any(|dropped| dropped.ident == index.ident);
    for build in dropped.iter().filter_map(|index| index.building) {
        let mut all = collection.indexes.iter().filter(|index| index.building == Some(build));
        if !all.all(|index| is_dropped(index)) {
            return collection.refuse_while_building();
        }
    }
    Ok(())
}

/// The single index with this key pattern. Codes 27, 181.
pub(crate) fn find_by_key(collection: &Collection, key: Doc<'_>) -> Result<Arc<Index>> {
    let same = |index: &&Arc<Index>| {
        let pattern = index.spec.key_pattern.as_doc();
        compare::equal(Value::Doc(pattern), Value::Doc(key))
    };
    let found: Vec<_> = collection.named_indexes().filter(same).collect();
    match found.as_slice() {
        [] => bail!(Code::INDEX_NOT_FOUND, "can't find index with key: {}", doc_text(key)),
        [one] => Ok(Arc::clone(one)),
        several => {
            let specs: Vec<_> =
                several.iter().map(|index| doc_text(index.spec.doc.as_doc())).collect();
            bail!(
                Code::AMBIGUOUS_INDEX_KEY_PATTERN,
                "{} indexes found for key: {}, identify by name instead. Conflicting indexes: {}",
                several.len(),
                doc_text(key),
                specs.join(", ")
            )
        }
    }
}
