//! `delete`: one statement of the command.

use std::time::Duration;

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::{
    collation::{Asked, Collation},
    filter::MatchInfo,
};
use nagi_store::{Collection, Durability, Namespace, RecordKey, Store, WriteTxn};

use super::{
    Change, How, Run, Selection, Tally, change_all, collation_of, on_collection, ordered, series,
    series_delete,
};
use crate::{
    figures::{DeleteFigures, note_delete},
    plan::Hint,
    source::{Env, document},
};

/// One element of `deletes`.
#[derive(Debug, Clone, Copy)]
pub struct DeleteStatement<'a> {
    pub filter: Doc<'a>,
    /// True: all that match (`limit: 0`); false: the first.
    pub multi: bool,
    pub hint: Option<Hint<'a>>,
    /// The command's `let`.
    pub let_vars: Doc<'a>,
    pub collation: Asked,
}

impl<'a> DeleteStatement<'a> {
    pub fn new(filter: Doc<'a>, multi: bool) -> DeleteStatement<'a> {
        DeleteStatement {
            filter,
            multi,
            hint: None,
            let_vars: Doc::EMPTY,
            collation: Asked::Inherited,
        }
    }
}

pub(crate) fn prepare<'a>(
    statement: &DeleteStatement<'a>,
    collation: Option<&'static Collation>,
    env: &Env<'_>,
) -> Result<Selection<'a>> {
    let (hint, lets) = (statement.hint, statement.let_vars);
    Selection::parse(statement.filter, Doc::EMPTY, hint, lets, collation, env)
}

/// Runs one delete statement. Returns the number of deleted documents.
pub fn delete(
    store: &Store,
    namespace: &Namespace,
    statement: &DeleteStatement<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<u64> {
    ordered(env, !statement.multi, || delete_in(store, namespace, statement, durability, env))
}

fn delete_in(
    store: &Store,
    namespace: &Namespace,
    statement: &DeleteStatement<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<u64> {
    let collation = collation_of(store, namespace, statement.collation);
    let selection = prepare(statement, collation, env)?;
    let how = How { durability, bypass_validation: true, keep_empty_timestamps: true };
    if let Some(buckets) = series(store, namespace) {
        let multi = statement.multi;
        return series_delete::delete((store, env), &buckets, &selection, how, multi);
    }
    on_collection((store, env), (namespace, false), &selection, how, |run| {
        let deleted = if statement.multi { many(run)? } else { one(run)? };
        run.show_delete(deleted);
        Ok(deleted)
    })
}

/// Deletes the first document that matches.
fn one(run: &Run<'_>) -> Result<u64> {
    let mut old = Vec::new();
    run.with_txn(&mut |txn| {
        let Some(id) = run.first(txn, &mut old)? else { return Ok(0) };
        txn.delete(&run.collection, id.key(), document(&old))?;
        Ok(1)
    })
}

/// Deletes every document that matches.
fn many(run: &Run<'_>) -> Result<u64> {
    Ok(change_all(run, &mut Deletion(&run.collection))?.modified)
}

struct Deletion<'c>(&'c Collection);

impl Change for Deletion<'_> {
    fn change(
        &mut self,
        txn: &mut WriteTxn<'_>,
        (id, doc, _): (RecordKey<'_>, Doc<'_>, MatchInfo),
        _: &Bump,
    ) -> Result<Tally> {
        txn.delete(self.0, id, doc)?;
        Ok(Tally { matched: 1, modified: 1 })
    }

    fn committed(&self, store: &Store, (docs, bytes): (u64, u64), refetches: u64, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        note_delete(store, DeleteFigures { batches: 1, docs, bytes, micros, refetches });
    }
}
