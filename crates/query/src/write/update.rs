//! `update`: one statement of the command.

use bumpalo::Bump;
use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::ParseCx,
    filter::MatchInfo,
    update::{Applied, Update, upsert_supplied},
};
use nagi_store::{Durability, EditKind, Namespace, RecordKey, Store, WriteTxn};

use super::{
    Change, How, Run, Selection, Tally, change_all, collation_of, on_collection, ordered, series,
    series_update,
};
use crate::{
    encrypted::Encryption,
    plan::Hint,
    source::{Env, document},
};

/// One element of `updates`.
#[derive(Debug, Clone, Copy)]
pub struct UpdateStatement<'a> {
    pub filter: Doc<'a>,
    /// Operators, a replacement or a pipeline.
    pub update: Value<'a>,
    pub array_filters: &'a [Doc<'a>],
    pub upsert: bool,
    /// The document that an upsert inserts instead of the one that the update builds.
    pub supplied: Option<Doc<'a>>,
    pub multi: bool,
    pub hint: Option<Hint<'a>>,
    /// Determines the document to update if several match (not with `multi`).
    pub sort: Doc<'a>,
    /// The command's `let` and the statement's constants.
    pub let_vars: Doc<'a>,
    /// Do not check the collection's validator.
    pub bypass_validation: bool,
    /// Empty timestamps at the top level of the stored document stay empty.
    pub keep_empty_timestamps: bool,
    pub collation: Asked,
    /// Converts the insert payloads of encrypted fields. Its state collections exist.
    pub encryption: Option<&'a Encryption>,
}

impl<'a> UpdateStatement<'a> {
    pub fn new(filter: Doc<'a>, update: Value<'a>) -> UpdateStatement<'a> {
        UpdateStatement {
            filter,
            update,
            array_filters: &[],
            upsert: false,
            supplied: None,
            multi: false,
            hint: None,
            sort: Doc::EMPTY,
            let_vars: Doc::EMPTY,
            bypass_validation: false,
            keep_empty_timestamps: false,
            collation: Asked::Inherited,
            encryption: None,
        }
    }
}

/// The outcome of a statement.
#[derive(Debug, Clone, Default)]
pub struct UpdateOutcome {
    pub matched: u64,
    pub modified: u64,
    /// The `_id` of the document inserted by an upsert.
    pub upserted: Option<ValueBuf>,
}

/// A parsed statement.
pub(crate) struct Prepared<'a> {
    pub(crate) selection: Selection<'a>,
    update: Update,
    supplied: Option<Doc<'a>>,
    encryption: Option<&'a Encryption>,
    /// The documents are the buckets of a time series, and the update is of its metadata.
    pub(super) of_metadata: bool,
}

pub(crate) fn prepare<'a>(
    statement: &UpdateStatement<'a>,
    collation: Option<&'static Collation>,
    env: &Env<'_>,
) -> Result<Prepared<'a>> {
    let selection = Selection::parse(
        statement.filter,
        statement.sort,
        statement.hint,
        statement.let_vars,
        collation,
        env,
    )?;
    if statement.upsert && selection.filter.contains_expr() {
        bail!(
            Code::QUERY_FEATURE_NOT_ALLOWED,
            "$expr is not allowed in the query predicate for an upsert"
        );
    }
    let mut cx = ParseCx::with_let(selection.lets.names()).collated(collation);
    let update = Update::parse(statement.update, statement.array_filters, &mut cx)?;
    if statement.multi && update.is_replacement() {
        bail!(Code::FAILED_TO_PARSE, "multi update is not supported for replacement-style update");
    }
    if statement.multi && selection.sort.is_some() {
        bail!(Code::FAILED_TO_PARSE, "Cannot specify sort with multi=true");
    }
    let UpdateStatement { supplied, encryption, .. } = *statement;
    Ok(Prepared { selection, update, supplied, encryption, of_metadata: false })
}

/// Runs one update statement.
///
/// # Errors
/// Errors of parsing and of applying (with `multi`, everything done before is kept), 11000, 121, 166.
pub fn update(
    store: &Store,
    namespace: &Namespace,
    statement: &UpdateStatement<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<UpdateOutcome> {
    ordered(env, !statement.multi, || update_in(store, namespace, statement, durability, env))
}

fn update_in(
    store: &Store,
    namespace: &Namespace,
    statement: &UpdateStatement<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<UpdateOutcome> {
    let how = How {
        durability,
        bypass_validation: statement.bypass_validation,
        keep_empty_timestamps: statement.keep_empty_timestamps,
    };
    if let Some(buckets) = series(store, namespace) {
        return series_update::update((store, env), &buckets, statement, how);
    }
    let collation = collation_of(store, namespace, statement.collation);
    let prepared = prepare(statement, collation, env)?;
    let target = (namespace, statement.upsert);
    on_collection((store, env), target, &prepared.selection, how, |run| {
        attempts(run, &prepared, statement)
    })
}

fn attempts(
    run: &Run<'_>,
    prepared: &Prepared<'_>,
    statement: &UpdateStatement<'_>,
) -> Result<UpdateOutcome> {
    let mut tries = 0;
    loop {
        let outcome = if statement.multi { many(run, prepared)? } else { one(run, prepared)? };
        if outcome.matched > 0 || !statement.upsert {
            run.show_update(outcome.matched, outcome.modified, 0);
            return Ok(outcome);
        }
        match upsert(run, prepared) {
            Ok(id) => {
                run.show_update(0, 0, 1);
                return Ok(UpdateOutcome { upserted: Some(id), ..UpdateOutcome::default() });
            }
            Err(error) if run.begins_again(&error, &mut tries)? => {}
            Err(error) => return Err(error),
        }
    }
}

/// Updates the first document that matches.
fn one(run: &Run<'_>, prepared: &Prepared<'_>) -> Result<UpdateOutcome> {
    let mut old = Vec::new();
    let mut new = Vec::new();
    run.with_txn(&mut |txn| {
        let mut outcome = UpdateOutcome::default();
        if let Some(id) = run.first(txn, &mut old)? {
            outcome.matched = 1;
            let modified = prepared.change_found(run, txn, (id.key(), document(&old)), &mut new)?;
            outcome.modified = u64::from(modified);
        }
        Ok(outcome)
    })
}

/// The update of a document, and what is done with its result before that is stored.
#[derive(Clone, Copy)]
pub(super) struct Edited<'e> {
    pub(super) update: &'e Update,
    pub(super) encryption: Option<&'e Encryption>,
    pub(super) of_metadata: bool,
}

/// Updates a document that matches as `info` says; whether that changes it. `new` gets the result.
pub(super) fn edit(
    Edited { update, encryption, of_metadata }: Edited<'_>,
    run: &Run<'_>,
    txn: &mut WriteTxn<'_>,
    (id, doc, info): (RecordKey<'_>, Doc<'_>, MatchInfo),
    arena: &Bump,
    new: &mut Vec<u8>,
) -> Result<bool> {
    let timestamp = || run.store.next_timestamp();
    new.clear();
    let applied = update.apply(doc, info, &run.update_cx(arena, &timestamp), new)?;
    let mut modified = applied == Applied::Modified;
    if modified && of_metadata {
        series_update::normalize_meta(new);
        modified = new[..] != *doc.as_bytes();
    }
    if modified {
        convert(encryption, run, txn, (doc, new))?;
        run.env.storing(new.len())?;
        let new = Doc::trusted(new);
        let edit = match update {
            _ if update.is_replacement() => EditKind::Replacement,
            _ if update.is_pipeline() => EditKind::Pipeline,
            _ => EditKind::Modifiers,
        };
        txn.update_by(edit, &run.collection, id, doc, new)?;
    }
    Ok(modified)
}

/// Converts the encrypted values of `new`, which is to be stored instead of `old`.
fn convert(
    encryption: Option<&Encryption>,
    run: &Run<'_>,
    txn: &mut WriteTxn<'_>,
    (old, new): (Doc<'_>, &mut Vec<u8>),
) -> Result<()> {
    let Some(encryption) = encryption else { return Ok(()) };
    let mut converted = Vec::new();
    let check = || run.env.interrupt().check();
    let docs = (old, Doc::trusted(new));
    if encryption.convert(txn, &run.collection, docs, &check, &mut converted)? {
        *new = converted;
    }
    Ok(())
}

impl Prepared<'_> {
    fn edited(&self) -> Edited<'_> {
        Edited { update: &self.update, encryption: self.encryption, of_metadata: self.of_metadata }
    }

    /// Updates the document that [`Run::first`] found; whether that changes it. `new` gets the result.
    pub(super) fn change_found(
        &self,
        run: &Run<'_>,
        txn: &mut WriteTxn<'_>,
        (id, doc): (RecordKey<'_>, Doc<'_>),
        new: &mut Vec<u8>,
    ) -> Result<bool> {
        let arena = Bump::new();
        // Where it matched is looked up only if the update asks for it.
        let info = match self.update.needs_position() {
            true => run.matching(doc, &arena)?.unwrap_or_default(),
            false => MatchInfo::default(),
        };
        edit(self.edited(), run, txn, (id, doc, info), &arena, new)
    }

    /// Inserts the document of the upsert. Returns its `_id`.
    pub(super) fn insert_upsert(
        &self,
        run: &Run<'_>,
        txn: &mut WriteTxn<'_>,
        new: &mut Vec<u8>,
    ) -> Result<ValueBuf> {
        let arena = Bump::new();
        let new_id = run.store.new_object_id();
        new.clear();
        let timestamp = || run.store.next_timestamp();
        let cx = run.update_cx(&arena, &timestamp);
        let filter = &self.selection.filter;
        match self.supplied {
            Some(supplied) => upsert_supplied(supplied, filter, &new_id, &cx, new)?,
            None => self.update.upsert_document(filter, &new_id, &cx, new)?,
        }
        convert(self.encryption, run, txn, (Doc::EMPTY, new))?;
        let doc = Doc::trusted(new);
        txn.insert_made(&run.collection, doc)?;
        Ok(ValueBuf::new(doc.get("_id")))
    }
}

/// Updates every document that matches.
pub(super) fn many(run: &Run<'_>, prepared: &Prepared<'_>) -> Result<UpdateOutcome> {
    let tally = change_all(run, &mut Edit { run, prepared, new: Vec::new() })?;
    Ok(UpdateOutcome { matched: tally.matched, modified: tally.modified, upserted: None })
}

struct Edit<'e, 'r> {
    run: &'e Run<'r>,
    prepared: &'e Prepared<'e>,
    new: Vec<u8>,
}

impl Change for Edit<'_, '_> {
    fn needs_position(&self) -> bool {
        self.prepared.update.needs_position()
    }

    fn change(
        &mut self,
        txn: &mut WriteTxn<'_>,
        found: (RecordKey<'_>, Doc<'_>, MatchInfo),
        arena: &Bump,
    ) -> Result<Tally> {
        let modified = edit(self.prepared.edited(), self.run, txn, found, arena, &mut self.new)?;
        Ok(Tally { matched: 1, modified: u64::from(modified) })
    }
}

fn upsert(run: &Run<'_>, prepared: &Prepared<'_>) -> Result<ValueBuf> {
    let mut new = Vec::new();
    run.with_txn(&mut |txn| prepared.insert_upsert(run, txn, &mut new))
}
