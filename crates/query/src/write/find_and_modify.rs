//! `findAndModify`: changes one document and returns it, as it was before or after.

use std::cell::Cell;

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, DocWriter, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::Asked,
    expr::{Eval, Metadata, ParseCx},
};
use nagi_store::{Durability, Namespace, Store, WriteTxn};

use super::{
    How, Run, collation_of, on_collection, ordered, series, series_delete,
    update::{Prepared, UpdateStatement, prepare},
};
use crate::{
    encrypted::Encryption,
    plan::Hint,
    projection::Projection,
    source::{Env, document, metadata},
};

/// The arguments of `findAndModify`.
#[derive(Debug, Clone, Copy)]
pub struct FindAndModifyRequest<'a> {
    pub namespace: &'a Namespace,
    pub filter: Doc<'a>,
    pub sort: Doc<'a>,
    pub remove: bool,
    /// Missing when `remove` is set.
    pub update: Value<'a>,
    pub array_filters: &'a [Doc<'a>],
    /// Returns the document after the update.
    pub new: bool,
    /// A projection.
    pub fields: Doc<'a>,
    pub upsert: bool,
    pub hint: Option<Hint<'a>>,
    pub let_vars: Doc<'a>,
    /// Do not check the collection's validator.
    pub bypass_validation: bool,
    pub keep_empty_timestamps: bool,
    pub collation: Asked,
    /// As in [`UpdateStatement`].
    pub encryption: Option<&'a Encryption>,
}

impl<'a> FindAndModifyRequest<'a> {
    pub fn new(namespace: &'a Namespace) -> FindAndModifyRequest<'a> {
        FindAndModifyRequest {
            namespace,
            filter: Doc::EMPTY,
            sort: Doc::EMPTY,
            remove: false,
            update: Value::Missing,
            array_filters: &[],
            new: false,
            fields: Doc::EMPTY,
            upsert: false,
            hint: None,
            let_vars: Doc::EMPTY,
            bypass_validation: false,
            keep_empty_timestamps: false,
            collation: Asked::Inherited,
            encryption: None,
        }
    }

    /// The equivalent update statement; a removal has an empty update.
    pub(crate) fn statement(&self) -> UpdateStatement<'a> {
        let nothing = Value::Doc(Doc::EMPTY);
        UpdateStatement {
            array_filters: self.array_filters,
            upsert: self.upsert,
            hint: self.hint,
            sort: self.sort,
            let_vars: self.let_vars,
            keep_empty_timestamps: self.keep_empty_timestamps,
            collation: self.collation,
            encryption: self.encryption,
            ..UpdateStatement::new(self.filter, if self.remove { nothing } else { self.update })
        }
    }

    /// # Errors
    /// 9 for arguments that exclude each other.
    pub(crate) fn check(&self) -> Result<()> {
        let message = match (self.remove, self.update.is_missing()) {
            (false, true) => "Either an update or remove=true must be specified",
            (true, false) => "Cannot specify both an update and remove=true",
            (true, _) if self.upsert => "Cannot specify both upsert=true and remove=true",
            (true, _) if self.new => {
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
                 document"
            }
            (true, _) if !self.array_filters.is_empty() => {
                "Cannot specify arrayFilters and remove=true"
            }
            _ => return Ok(()),
        };
        bail!(Code::FAILED_TO_PARSE, "{message}");
    }
}

/// The reply of `findAndModify`.
#[derive(Debug, Clone, Default)]
pub struct FoundAndModified {
    /// The document, projected; none: null.
    pub value: Option<DocBuf>,
    /// Documents updated, inserted or removed: 0 or 1.
    pub n: u64,
    pub updated_existing: bool,
    /// True if the document was changed by the update.
    pub modified: bool,
    pub upserted: Option<ValueBuf>,
}

/// Runs `findAndModify`.
pub fn find_and_modify(
    store: &Store,
    request: &FindAndModifyRequest<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<FoundAndModified> {
    request.check()?;
    ordered(env, true, || modify_in(store, request, durability, env))
}

fn modify_in(
    store: &Store,
    request: &FindAndModifyRequest<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<FoundAndModified> {
    let collation = collation_of(store, request.namespace, request.collation);
    let mut prepared = prepare(&request.statement(), collation, env)?;
    let selection = &mut prepared.selection;
    let noted = Cell::default();
    let mut cx = ParseCx::with_let(selection.lets.names()).collated(collation).noting(&noted);
    let projection = Projection::parse(request.fields, &selection.filter, &mut cx)?;
    noted.get().check(selection.filter.metas())?;
    selection.metas = selection.metas | noted.get();
    let how = How {
        durability,
        bypass_validation: request.bypass_validation,
        keep_empty_timestamps: request.keep_empty_timestamps,
    };
    if let Some(buckets) = series(store, request.namespace) {
        refuse_of_series(request)?;
        let (mut value, projection) = (None, projection.as_ref());
        let selection = &prepared.selection;
        let n = series_delete::find_and_remove(
            (store, env),
            &buckets,
            selection,
            how,
            &mut |run, doc| {
                let modify = Modify { request, prepared: &prepared, projection, run };
                value = Some(modify.project(doc, Doc::EMPTY)?);
                Ok(())
            },
        )?;
        return Ok(FoundAndModified { value, n, ..Default::default() });
    }
    let target = (request.namespace, request.upsert);
    on_collection((store, env), target, &prepared.selection, how, |run| {
        let projection = projection.as_ref();
        Modify { request, prepared: &prepared, projection, run }.attempts()
    })
}

/// Only a measurement may be removed from a time series collection, and any that matches (72).
pub(crate) fn refuse_of_series(request: &FindAndModifyRequest<'_>) -> Result<()> {
    if !request.remove {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform a findAndModify with an update on a time-series collection"
        )
    }
    if !request.sort.is_empty() {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform a findAndModify with a sort on a time-series collection"
        )
    }
    Ok(())
}

/// Everything one attempt needs.
struct Modify<'r> {
    request: &'r FindAndModifyRequest<'r>,
    prepared: &'r Prepared<'r>,
    projection: Option<&'r Projection>,
    run: &'r Run<'r>,
}

impl Modify<'_> {
    fn attempts(&self) -> Result<FoundAndModified> {
        let mut tries = 0;
        loop {
            match self.run.with_txn(&mut |txn| self.once(txn)) {
                Ok(found) => {
                    self.show(&found);
                    return Ok(found);
                }
                Err(error)
                    if self.request.upsert && self.run.begins_again(&error, &mut tries)? => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn show(&self, found: &FoundAndModified) {
        let upserted = u64::from(found.upserted.is_some());
        match self.request.remove {
            true => self.run.show_delete(found.n),
            false => self.run.show_update(found.n - upserted, u64::from(found.modified), upserted),
        }
    }

    fn once(&self, txn: &mut WriteTxn<'_>) -> Result<FoundAndModified> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let Some(id) = self.run.first(txn, &mut old)? else {
            return if self.request.upsert { self.insert(txn) } else { Ok(Default::default()) };
        };
        let (doc, meta) = (document(&old), metadata(&old));
        if self.request.remove {
            txn.delete(&self.run.collection, id.key(), doc)?;
            let value = Some(self.project(doc, meta)?);
            return Ok(FoundAndModified { value, n: 1, ..Default::default() });
        }
        let modified = self.prepared.change_found(self.run, txn, (id.key(), doc), &mut new)?;
        let after = if modified { Doc::trusted(&new) } else { doc };
        let value = Some(self.project(if self.request.new { after } else { doc }, meta)?);
        Ok(FoundAndModified { value, n: 1, updated_existing: true, modified, upserted: None })
    }

    fn insert(&self, txn: &mut WriteTxn<'_>) -> Result<FoundAndModified> {
        let mut new = Vec::new();
        let id = self.prepared.insert_upsert(self.run, txn, &mut new)?;
        let value = match self.request.new {
            true => Some(self.project(Doc::trusted(&new), Doc::EMPTY)?),
            false => None,
        };
        Ok(FoundAndModified { value, n: 1, upserted: Some(id), ..Default::default() })
    }

    /// The projection of a document that was found with this metadata.
    fn project(&self, doc: Doc<'_>, meta: Doc<'_>) -> Result<DocBuf> {
        let Some(projection) = self.projection else { return Ok(doc.to_buf()) };
        let arena = Bump::new();
        let info = match projection.needs_match() {
            true => self.run.matching(doc, &arena)?,
            false => None,
        };
        let mut bytes = Vec::new();
        let mut out = DocWriter::new(&mut bytes);
        let mut eval = Eval::new(doc, self.run.vars, &arena, self.run.env.now_ms());
        let meta = Metadata::read(meta);
        eval.meta = Some(&meta);
        projection.apply(&eval, info, &mut out)?;
        out.finish();
        Ok(Doc::trusted(&bytes).to_buf())
    }
}
