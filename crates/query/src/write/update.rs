//! `update`: one statement of the command.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::{ParseCx, Vars},
    filter::MatchInfo,
    update::{Applied, Update, upsert_supplied},
};
use nagi_store::{Collection, Durability, Namespace, Store, WriteTxn};

use super::{
    How, Selection, Tally, UPSERT_RETRIES, collation_of, in_chunks, ordered, target, update_cx,
    with_txn,
};
use crate::{
    plan::Hint,
    source::{Env, document, renew},
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
    pub(super) update: Update,
    supplied: Option<Doc<'a>>,
    pub(super) keep_empty_timestamps: bool,
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
    let keep_empty_timestamps = statement.keep_empty_timestamps;
    Ok(Prepared { selection, update, supplied: statement.supplied, keep_empty_timestamps })
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
    let collation = collation_of(store, namespace, statement.collation);
    let prepared = prepare(statement, collation, env)?;
    let mut collection = target(store, namespace)?;
    if collection.is_none() && statement.upsert {
        collection = Some(store.collection_or_create(namespace)?);
    }
    let Some(collection) = collection else { return Ok(UpdateOutcome::default()) };
    let values = prepared.selection.lets.values();
    let vars = Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
    let how = How {
        durability,
        bypass_validation: statement.bypass_validation,
        keep_empty_timestamps: statement.keep_empty_timestamps,
    };
    let mut tries = 0;
    loop {
        let outcome = if statement.multi {
            many(store, &collection, &prepared, &vars, how, env)?
        } else {
            one(store, &collection, &prepared, &vars, how, env)?
        };
        if outcome.matched > 0 || !statement.upsert {
            show(env, &outcome);
            return Ok(outcome);
        }
        match upsert(store, &collection, &prepared, &vars, how, env) {
            Ok(id) => {
                env.top_stages(
                    "UPDATE",
                    &[("nMatched", 0), ("nWouldModify", 0), ("nWouldUpsert", 1)],
                );
                return Ok(UpdateOutcome { upserted: Some(id), ..UpdateOutcome::default() });
            }
            // Another writer inserted the document in the meantime, so it matches.
            Err(error) if error.code() == Code::DUPLICATE_KEY && tries < UPSERT_RETRIES => {
                tries += 1;
                if !has_match(store, &collection, &prepared, &vars, env)? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn show(env: &Env<'_>, outcome: &UpdateOutcome) {
    let counts =
        [("nMatched", outcome.matched), ("nWouldModify", outcome.modified), ("nWouldUpsert", 0)];
    env.top_stages("UPDATE", &counts);
}

fn has_match(
    store: &Store,
    collection: &Arc<Collection>,
    prepared: &Prepared<'_>,
    vars: &Vars<'_>,
    env: &Env<'_>,
) -> Result<bool> {
    Ok(!prepared.selection.all(store, collection, vars, env)?.is_empty())
}

/// Updates the first matching document.
fn one(
    store: &Store,
    collection: &Arc<Collection>,
    prepared: &Prepared<'_>,
    vars: &Vars<'_>,
    how: How,
    env: &Env<'_>,
) -> Result<UpdateOutcome> {
    let mut old = Vec::new();
    let mut new = Vec::new();
    let timestamp = || store.next_timestamp();
    with_txn(store, how, env, &mut |txn| {
        let mut outcome = UpdateOutcome::default();
        let found = prepared.selection.first(collection, txn, vars, env, &mut old)?;
        if let Some(id) = found {
            outcome.matched = 1;
            let doc = document(&old);
            let arena = Bump::new();
            let info = prepared.info(doc, vars, &arena, env)?.unwrap_or_default();
            new.clear();
            let applied = prepared.update.apply(
                doc,
                info,
                &update_cx(vars, &arena, env, &timestamp, prepared.keep_empty_timestamps),
                &mut new,
            )?;
            if applied == Applied::Modified {
                env.changing(new.len())?;
                txn.update(collection, id.key(), doc, Doc::trusted(&new))?;
                outcome.modified = 1;
            }
        }
        Ok(outcome)
    })
}

impl Prepared<'_> {
    /// The position at which the document matched, if the update needs it.
    pub(super) fn info(
        &self,
        doc: Doc<'_>,
        vars: &Vars<'_>,
        arena: &Bump,
        env: &Env<'_>,
    ) -> Result<Option<MatchInfo>> {
        if !self.update.needs_position() {
            return Ok(Some(MatchInfo::default()));
        }
        self.selection.matching(doc, vars, arena, env)
    }

    /// Inserts the document of the upsert. Returns its `_id`.
    pub(super) fn insert_upsert(
        &self,
        collection: &Collection,
        txn: &mut WriteTxn<'_>,
        vars: &Vars<'_>,
        env: &Env<'_>,
        new: &mut Vec<u8>,
    ) -> Result<ValueBuf> {
        let arena = Bump::new();
        let new_id = txn.store().new_object_id();
        new.clear();
        let store = txn.store();
        let timestamp = || store.next_timestamp();
        let cx = update_cx(vars, &arena, env, &timestamp, self.keep_empty_timestamps);
        let filter = &self.selection.filter;
        match self.supplied {
            Some(supplied) => upsert_supplied(supplied, filter, &new_id, &cx, new)?,
            None => self.update.upsert_document(filter, &new_id, &cx, new)?,
        }
        let doc = Doc::trusted(new);
        txn.insert_made(collection, doc)?;
        Ok(ValueBuf::new(doc.get("_id")))
    }
}

/// Updates every matching document.
fn many(
    store: &Store,
    collection: &Arc<Collection>,
    prepared: &Prepared<'_>,
    vars: &Vars<'_>,
    how: How,
    env: &Env<'_>,
) -> Result<UpdateOutcome> {
    let before = env.work().stats.docs_examined;
    let ids = prepared.selection.all(store, collection, vars, env)?;
    let mut arena = Bump::new();
    let mut new = Vec::new();
    let timestamp = || store.next_timestamp();
    let tally = in_chunks(store, collection, (&ids, before), how, env, &mut |txn, id, doc| {
        renew(&mut arena);
        let Some(info) = prepared.selection.matching(doc, vars, &arena, env)? else {
            return Ok(Tally::default());
        };
        new.clear();
        let applied = prepared.update.apply(
            doc,
            info,
            &update_cx(vars, &arena, env, &timestamp, prepared.keep_empty_timestamps),
            &mut new,
        )?;
        let modified = applied == Applied::Modified;
        if modified {
            env.changing(new.len())?;
            txn.update(collection, id, doc, Doc::trusted(&new))?;
        }
        Ok(Tally { matched: 1, modified: u64::from(modified) })
    })?;
    Ok(UpdateOutcome { matched: tally.matched, modified: tally.modified, upserted: None })
}

fn upsert(
    store: &Store,
    collection: &Collection,
    prepared: &Prepared<'_>,
    vars: &Vars<'_>,
    how: How,
    env: &Env<'_>,
) -> Result<ValueBuf> {
    let mut new = Vec::new();
    with_txn(store, how, env, &mut |txn| {
        prepared.insert_upsert(collection, txn, vars, env, &mut new)
    })
}
