//! `renameCollection`: changes the name within a database, and copies to another database.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};

use super::target::TargetFacts;
use crate::{BuildOptions, Namespace, RecordId, Store, WriteOptions, clock};
use crate::{
    catalog::{Collection, Uuid},
    store::{
        commit::Replaced,
        ddl::{self, Ddl},
        frozen::Frozen,
    },
};

/// Limit of the documents that a transaction copies.
const COPY_BATCH_COUNT: usize = 500;
/// Documents between two interrupt checks.
const ASK_EACH: usize = 32;
/// Approximate limit of the bytes that a transaction copies.
const COPY_BATCH_BYTES: usize = 4 << 20;

/// Options of a rename.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rename {
    /// Drops an existing collection with the new name.
    pub drop_target: bool,
    /// A temporary collection stays temporary.
    pub stay_temp: bool,
    /// The expected UUIDs, which are checked when the names change; another collection is error 361.
    pub source: Option<Uuid>,
    pub target: Option<Uuid>,
}

impl Store {
    /// Renames within a database; copies to another database while writers of the collection wait. A temporary
    /// collection becomes permanent, unless `stay_temp` is set. `interrupt` is polled while documents are copied;
    /// an error cancels and undoes the copy. Codes 20, 26, 48, 117, 166, 361, 12587.
    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        how: Rename,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.catalog().check_uuid(from, how.source)?;
        let Some(source) = self.collection(from) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "Source collection {from} does not exist");
        };
        // The collection may have been replaced between the check and this point.
        if how.source.is_some_and(|expected| expected != source.uuid) {
            self.catalog().check_uuid(from, how.source)?;
        }
        if source.is_view() {
            bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "cannot rename view: {from}");
        }
        if from == to {
            bail!(Code::ILLEGAL_OPERATION, "Can't rename a collection to itself");
        }
        self.refuse_live_log(&source, "rename")?;
        source.refuse_while_building()?;
        if from.database() == to.database() {
            return self.rename_within(from, to, how, None);
        }
        if !how.drop_target && self.collection(to).is_some() {
            bail!(Code::NAMESPACE_EXISTS, "target namespace exists");
        }
        let name = format!("tmp{:05}.renameCollection", clock::random() % 100_000);
        let temporary = Namespace::new(to.database(), &name)?;
        let _frozen = Frozen::begin(self, std::slice::from_ref(&source))?;
        let copied = self.copy(&source, &temporary, interrupt);
        let renamed = copied.and_then(|()| {
            self.rename_within(&temporary, to, Rename { source: None, ..how }, None)
        });
        if let Err(error) = renamed {
            self.drop_collection(&temporary)?;
            return Err(error);
        }
        match self.newest(&source) {
            Some(_) => self.drop_collection(from).map(drop),
            None => Ok(()), // it was dropped in the meantime
        }
    }

    /// Renames a collection over another one of the same database, or to a free name. `facts`: what the other one was
    /// when the writing of the first began.
    ///
    /// # Errors
    /// 125 if options or indexes of the other one have changed since; 26, 48.
    pub fn replace_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        facts: &TargetFacts,
    ) -> Result<()> {
        let how = Rename { drop_target: true, ..Rename::default() };
        self.rename_within(from, to, how, Some(facts))
    }

    pub(super) fn rename_within(
        &self,
        from: &Namespace,
        to: &Namespace,
        how: Rename,
        facts: Option<&TargetFacts>,
    ) -> Result<()> {
        let mut ddl = Ddl::alone(self, &|catalog| {
            [from, to].iter().filter_map(|name| catalog.collection(name).cloned()).collect()
        })?;
        ddl.catalog.check_uuid(from, how.source)?;
        ddl.catalog.check_uuid(to, how.target)?;
        let Some(source) = ddl.collection(from) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "Source collection {from} does not exist");
        };
        source.refuse_while_building()?;
        let mut replaced = None;
        ddl.catalog.refuse_beside_buckets(to)?;
        let target = ddl.collection(to);
        if let (Some(facts), false) = (facts, target.as_ref().is_some_and(|c| c.is_view())) {
            facts.check(to, target.as_deref())?;
        }
        if let Some(target) = target {
            if !how.drop_target {
                bail!(Code::NAMESPACE_EXISTS, "target namespace exists");
            }
            if target.is_view() {
                bail!(Code::NAMESPACE_EXISTS, "a view already exists with that name: {to}");
            }
            target.refuse_while_building()?;
            ddl.replace(&target)?;
            ddl.note(Some(Arc::clone(&target)), None, false);
            replaced = Some(Replaced { uuid: target.uuid, count: target.count() });
        }
        let mut renamed = source.with_indexes(source.indexes.to_vec());
        renamed.namespace = to.clone();
        if !how.stay_temp {
            renamed.options.set_temporary(false);
        }
        ddl.put_over(renamed, replaced)?;
        ddl.finish()?;
        log::info!(target: "COMMAND", id = 20319, fromName = from.as_str(),
            toName = to.as_str(); "renameCollection");
        Ok(())
    }

    /// Copies options, indexes and documents; keeps the order of the documents.
    fn copy(
        &self,
        source: &Arc<Collection>,
        to: &Namespace,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut ddl = Ddl::begin(self)?;
        let mut options = source.options.clone();
        options.set_temporary(true);
        ddl.stripes_power = source.ident.stripes_power();
        let target = ddl::create(&mut ddl, to, options, Some(source.space))?;
        ddl.finish()?;
        let specs: Vec<Doc<'_>> = source
            .ready_indexes()
            .filter(|index| !index.spec.is_id())
            .map(|index| index.spec.doc.as_doc())
            .collect();
        if !specs.is_empty() {
            self.create_indexes(to, &specs, BuildOptions::default())?;
        }
        let snapshot = self.snapshot()?;
        let mut cursor = snapshot.reader().scan(source, true)?;
        let mut last = None::<RecordId>;
        let interrupted = Some(interrupt);
        let options =
            WriteOptions { bypass_validation: true, interrupt: interrupted, ..Default::default() };
        loop {
            interrupt()?;
            let copied = self.write_value(options, &mut |txn| {
                let (mut count, mut bytes, mut id) = (0, 0, None);
                match &last {
                    Some(last) => cursor.resume_after(last.key()),
                    None => cursor.begin_again(),
                }
                while count < COPY_BATCH_COUNT && bytes < COPY_BATCH_BYTES && cursor.advance()? {
                    if count % ASK_EACH == 0 {
                        interrupt()?;
                    }
                    txn.insert(&target, cursor.doc())?;
                    count += 1;
                    bytes += cursor.doc().len();
                    id = Some(cursor.id().to_id());
                }
                Ok(id)
            })?;
            if copied.is_none() {
                return Ok(());
            }
            last = copied;
        }
    }
}
