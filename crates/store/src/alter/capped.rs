//! `convertToCapped`, and the removal of the newest documents of a capped collection.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};

use crate::{
    Collection, CollectionOptions, Namespace, RecordKey, Store, WriteOptions,
    catalog::Uuid,
    store::ddl::{Ddl, refuse_view},
    store::txn::capped::CAPPED_BATCH_COUNT,
};

impl Store {
    /// `convertToCapped`: converts in place, because records are in insertion order in any case. Other indexes are
    /// dropped, the collection gets a new UUID, and documents beyond the limits are removed. Code 26.
    pub fn convert_to_capped(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.convert_to_capped_of(namespace, options, Uuid::random(), interrupt)
    }

    /// The same with the new UUID, as an entry of an oplog has it.
    pub fn convert_to_capped_of(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
        uuid: Uuid,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let capped = CollectionOptions::parse(options, namespace)?;
        // The UUID changes, so for clients it becomes another collection.
        let (mut ddl, frozen) = Ddl::alone(self, &|catalog| {
            catalog.collection(namespace).cloned().into_iter().collect()
        })?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "source collection {namespace} does not exist");
        };
        refuse_view(&collection)?;
        collection.refuse_while_building()?;
        if collection.options.encrypted_fields.is_some() {
            bail!(
                Code::Location(6_367_301),
                "Encrypted fields cannot be used with capped collections"
            );
        }
        let is_id = |index: &Arc<crate::Index>| index.spec.is_id();
        for index in collection.indexes.iter().filter(|index| !is_id(index)) {
            ddl.remove_index(index)?;
        }
        let kept = collection.indexes.iter().filter(|index| is_id(index)).cloned().collect();
        let mut next = collection.with_indexes(kept);
        next.options = merged(&collection.options, &capped, namespace)?;
        next.uuid = uuid;
        let next = ddl.put(next)?;
        ddl.finish()?;
        drop(frozen);
        self.trim_now(&next, interrupt)
    }

    /// Removes the documents beyond the limits, in transactions of bounded size.
    fn trim_now(
        &self,
        collection: &Arc<Collection>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let options = WriteOptions { interrupt: Some(interrupt), ..WriteOptions::default() };
        loop {
            interrupt()?;
            let removed = self.write_value(options, &mut |txn| {
                let at = txn.touch(collection)?;
                txn.lock_capped(collection)?;
                txn.trim_capped(collection, at)?;
                Ok(txn.touched[at].count)
            })?;
            if removed == 0 {
                return Ok(());
            }
        }
    }

    /// Deletes the records after `last` (all if none). For tests of capped collections.
    pub fn truncate_capped_after(
        &self,
        collection: &Arc<Collection>,
        last: Option<RecordKey<'_>>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let options = WriteOptions { interrupt: Some(interrupt), ..WriteOptions::default() };
        loop {
            interrupt()?;
            let count = self.write_value(options, &mut |txn| {
                txn.lock_capped(collection)?;
                let mut doomed = Vec::new();
                let mut scan = txn.reader().scan(collection, false)?;
                while doomed.len() < CAPPED_BATCH_COUNT
                    && scan.advance()?
                    && last.is_none_or(|last| scan.id() > last)
                {
                    doomed.push((scan.id().to_id(), scan.doc().to_buf()));
                }
                drop(scan);
                for (id, doc) in &doomed {
                    txn.delete(collection, id.key(), doc.as_doc())?;
                }
                Ok(doomed.len())
            })?;
            if count == 0 {
                return Ok(());
            }
        }
    }
}

/// The options of a collection that is converted.
fn merged(
    old: &CollectionOptions,
    capped: &CollectionOptions,
    namespace: &Namespace,
) -> Result<CollectionOptions> {
    let doc = nagi_bson::DocBuf::build(|w| {
        w.extend(capped.doc.as_doc());
        for element in old.doc.as_doc() {
            if capped.doc.as_doc().element(element.name()).is_none()
                && !matches!(element.name(), "max" | "temp")
            {
                w.put(element.name(), element.value());
            }
        }
    });
    CollectionOptions::parse(doc.as_doc(), namespace)
}
