//! `convertToCapped`, copies into capped collections, and the removal of the newest documents of one.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};

use super::{rename::Rename, target::TargetFacts};
use crate::{
    Collection, CollectionOptions, Namespace, RecordKey, Store, WriteOptions,
    catalog::Uuid,
    clock,
    store::{ddl::refuse_view, frozen::Frozen, txn::capped::CAPPED_BATCH_COUNT},
};

/// Limits of documents and bytes in one transaction of a copy.
const CHUNK_COUNT_MAX: usize = 500;
const CHUNK_BYTES_MAX: usize = 4 << 20;

impl Store {
    /// `convertToCapped`: copies the newest documents into a temporary capped collection, which then replaces the
    /// original, as the oplog and change streams of MongoDB show it. Writers of the collection wait. Other indexes
    /// than that of `_id` are dropped. An error of `interrupt` cancels and undoes the copy. Codes 20, 26, 166.
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
        let Some(source) = self.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "source collection {namespace} does not exist");
        };
        refuse_view(&source)?;
        source.refuse_while_building()?;
        self.refuse_live_log(&source, "change")?;
        if source.options.encrypted_fields.is_some() {
            bail!(
                Code::Location(6_367_301),
                "Encrypted fields cannot be used with capped collections"
            );
        }
        let mut options = merged(&source.options, &capped, namespace)?;
        let how = Rename {
            drop_target: true,
            stay_temp: options.is_temporary(),
            source: Some(uuid),
            target: Some(source.uuid),
        };
        options.set_temporary(true);
        let name = format!(
            "tmp{:05}.convertToCapped.{}",
            clock::random() % 100_000,
            namespace.collection()
        );
        let temporary = Namespace::new(namespace.database(), &name)?;
        let facts = TargetFacts::of(Some(&source));
        let _frozen = Frozen::begin(self, std::slice::from_ref(&source))?;
        let target = self.create_collection_of(&temporary, options.doc.as_doc(), uuid)?;
        let copied = self.copy_to_capped(&source, &target, interrupt);
        let replaced =
            copied.and_then(|()| self.rename_within(&temporary, namespace, how, Some(&facts)));
        if replaced.is_err() {
            self.drop_collection_of(&temporary, Some(uuid))?;
        }
        replaced
    }

    /// Copies the documents that the capped collection `target` would keep: the oldest ones beyond its size are
    /// skipped. They are not validated. An error of `interrupt` ends the copy, which is then incomplete.
    pub fn copy_to_capped(
        &self,
        source: &Arc<Collection>,
        target: &Arc<Collection>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let options = WriteOptions {
            bypass_validation: true,
            interrupt: Some(interrupt),
            ..WriteOptions::default()
        };
        let charge = target.options.capped_bytes_max();
        let mut excess = source.data_bytes() - charge;
        let snapshot = self.snapshot()?;
        let mut scan = snapshot.reader().scan(source, true)?;
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        loop {
            interrupt()?;
            let more = scan.advance()?;
            if more {
                excess -= scan.doc().len() as i64;
                if excess >= 0 || scan.doc().len() as i64 > charge {
                    continue;
                }
                bytes += scan.doc().len();
                chunk.push(scan.doc().to_buf());
            }
            if !more || chunk.len() == CHUNK_COUNT_MAX || bytes > CHUNK_BYTES_MAX {
                self.write(options, &mut |txn| {
                    chunk.iter().try_for_each(|doc| txn.insert(target, doc.as_doc()).map(drop))
                })?;
                (chunk, bytes) = (Vec::new(), 0);
            }
            if !more {
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
