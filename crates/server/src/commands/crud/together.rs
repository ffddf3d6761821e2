//! Consecutive statements by `_id`, executed together ([`nagi_query::change_by_ids`]): they read their documents with
//! two batched gets and commit once.
//!
//! The statements of a retryable write are recorded in the same commit. While the database is profiled, and so each
//! statement has an entry of its own, they are executed one by one.

use nagi_query::{ById, ByIdOutcome, ByIds, UpdateOutcome, change_by_ids};
use nagi_store::{Namespace, Statement};

use super::delete::DELETED;
use super::statement::Running;
use super::update::{OUTCOME, note_update};
use super::writes::{How, in_env};
use crate::core::command::Done;
use crate::core::command::prelude::*;
use crate::core::txn_number::{self, Executed};
use crate::observe::slow;
use crate::statement_text::Kind;

/// Fewer are not worth it.
const COUNT_MIN: usize = 2;

/// The progress of a command's statements.
#[derive(Default)]
pub(super) struct Together {
    /// The statements before this one are executed one by one, because one of them failed.
    alone_until: usize,
}

/// Statements of a command that can be executed together.
pub(super) struct Group<'g> {
    pub(super) ns: &'g Namespace,
    pub(super) statements: Vec<ById<'g>>,
    /// The position of the first one.
    pub(super) at: usize,
    /// The kind and the source of the statement at a position.
    pub(super) shown: &'g dyn Fn(usize) -> (&'static Kind, Doc<'g>),
}

impl Together {
    /// Returns true if the statement at `at` and those after it may be executed together.
    pub(super) fn may(
        &self,
        cx: &Context<'_>,
        ns: &Namespace,
        let_vars: Doc<'_>,
        at: usize,
    ) -> bool {
        at >= self.alone_until
            && let_vars.is_empty()
            && !cx.in_transaction()
            && !slow::may_tell(cx.server, ns.database(), 0)
    }

    /// Executes the first statements of the group, and returns what they did; none if the first one has to be executed
    /// alone.
    ///
    /// # Errors
    /// Those that end a command.
    pub(super) fn run(
        &mut self,
        cx: &mut Context<'_>,
        req: &Request<'_>,
        group: &Group<'_>,
        how: How,
    ) -> Result<Vec<ByIdOutcome>> {
        if group.statements.len() < COUNT_MIN {
            return Ok(Vec::new());
        }
        let of = ByIds {
            statements: &group.statements,
            statement: None,
            bypass_validation: how.bypass,
            keep_empty_timestamps: how.keep_empty_timestamps,
        };
        let (kind, source) = (group.shown)(group.at);
        let running = Running::begin(cx, group.at, (kind, group.ns, source));
        let done = match txn_number::is_retryable(cx) {
            true => once(cx, req, group, &of),
            false => in_env(cx, |store, env| change_by_ids(store, group.ns, &of, env)),
        };
        let count = done.as_ref().map_or(1, Vec::len);
        let Some(last) = count.checked_sub(1) else {
            running.give_up(cx);
            self.alone_until = group.at + group.statements.len();
            return Ok(Vec::new());
        };
        // If these statements were slow, the last one has waited and is shown.
        let (kind, source) = (group.shown)(group.at + last);
        let is_update = group.statements[last].update.is_some();
        running.end(cx, req, (kind, group.ns, source), &done, &|all, done: &Vec<_>| {
            note(all, done[last], is_update);
        });
        done
    }
}

/// Executes statements of a retryable write together with their records. If an earlier attempt executed one of them, or
/// if one fails, none is executed.
fn once(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    group: &Group<'_>,
    of: &ByIds<'_>,
) -> Result<Vec<ByIdOutcome>> {
    let positions = 0..group.statements.len();
    let ids: Vec<i32> = positions.map(|at| txn_number::statement_id(req, group.at + at)).collect();
    if txn_number::any_executed(cx, &ids) {
        return Ok(Vec::new());
    }
    let whole = txn_number::statement(cx);
    let named = |at: usize| Statement { id: ids[at], ..whole };
    let of = ByIds { statement: Some(&named), ..*of };
    let executed = |done: &Vec<ByIdOutcome>| records(&group.statements, &ids, done);
    let mut attempts = 0;
    let done = txn_number::recorded(cx, &executed, &mut |cx| {
        attempts += 1;
        if attempts > 1 {
            bail!(Code::BAD_VALUE, "another client writes one of the documents");
        }
        in_env(cx, |store, env| change_by_ids(store, group.ns, &of, env))
    });
    match done {
        Err(error) if nagi_query::ends_command(&error) => Err(error),
        done => Ok(done.unwrap_or_default()),
    }
}

/// The records of executed statements: what changed nothing may be executed again.
fn records(statements: &[ById<'_>], ids: &[i32], done: &[ByIdOutcome]) -> Vec<Executed> {
    let changed = |is_update: bool| -> Vec<i32> {
        let all = statements.iter().zip(ids).zip(done);
        let all = all.filter(|((of, _), done)| done.modified && of.update.is_some() == is_update);
        all.map(|((_, id), _)| *id).collect()
    };
    let updated = UpdateOutcome { matched: 1, modified: 1, upserted: None };
    let records =
        [(changed(true), (OUTCOME.write)(&updated)), (changed(false), (DELETED.write)(&1))];
    records.into_iter().filter(|(ids, _)| !ids.is_empty()).collect()
}

fn note(all: &mut Done, done: ByIdOutcome, is_update: bool) {
    let (matched, modified) = (u64::from(done.matched), u64::from(done.modified));
    match is_update {
        true => note_update(all, matched, modified, 0),
        false => all.deleted = Some(matched),
    }
}
