//! Consecutive statements by `_id`, executed together ([`nagi_query::change_by_ids`]): they read their documents with
//! two batched gets and commit once.
//!
//! Statements that the profile or a retryable write records one by one are executed one by one.

use nagi_query::{BY_IDS_MAX, ById, ByIds, change_by_ids};
use nagi_store::Durability;

use super::outcome::Outcome;
use super::statement::Running;
use super::writes::{Change, How, Statements, in_env};
use crate::core::command::prelude::*;
use crate::core::txn_number;
use crate::observe::slow;

/// Fewer are not worth it.
const COUNT_MIN: usize = 2;

/// The progress of a command's statements.
#[derive(Default)]
pub(super) struct Together {
    /// The statements before this one are executed one by one, because one of them failed.
    alone_until: usize,
}

impl Together {
    /// Executes the statements from `at` on that can be executed together, and adds what they did to `outcome`. Returns
    /// how many these were; zero if the next statement is executed alone. `how` is that of the last statement.
    ///
    /// # Errors
    /// Those that end a command.
    pub(super) fn run<S: Change>(
        &mut self,
        cx: &mut Context<'_>,
        req: &Request<'_>,
        (statements, at): (&Statements<'_, S>, usize),
        how: How,
        outcome: &mut Outcome,
    ) -> Result<usize> {
        let Statements { ns, list, kind, .. } = *statements;
        if at < self.alone_until || !may(cx, statements) {
            return Ok(0);
        }
        let list = &list[at..];
        let by_ids: Vec<ById<'_>> = list.iter().take(BY_IDS_MAX).map_while(S::by_id).collect();
        if by_ids.len() < COUNT_MIN {
            return Ok(0);
        }
        let is_last = by_ids.len() == list.len();
        let of = ByIds {
            statements: &by_ids,
            durability: if is_last { how.durability } else { Durability::Buffered },
            bypass_validation: how.bypass,
            keep_empty_timestamps: how.keep_empty_timestamps,
        };
        let running = Running::begin(cx, at);
        let done = in_env(cx, |store, env| change_by_ids(store, ns, &of, env));
        let (done, last) = match done {
            Ok(done) => match done.last().copied() {
                Some(last) => (done, Ok(S::done(last))),
                None => {
                    running.give_up(cx);
                    self.alone_until = at + by_ids.len();
                    return Ok(0);
                }
            },
            Err(error) => (Vec::new(), Err(error)),
        };
        // If these statements were slow, the last one has waited and is shown.
        let source = list[done.len().saturating_sub(1)].source();
        running.end(cx, req, (kind, ns, source), &last, &S::note);
        last?;
        S::counter(&cx.server.metrics.ops).add(done.len() as u64);
        done.iter().enumerate().for_each(|(i, one)| S::add(outcome, at + i, S::done(*one)));
        Ok(done.len())
    }
}

fn may<S: Change>(cx: &Context<'_>, statements: &Statements<'_, S>) -> bool {
    !txn_number::is_retryable(cx)
        && !cx.in_transaction()
        && statements.let_vars.is_none_or(|vars| vars.is_empty())
        && !slow::may_tell(cx.server, statements.ns.database(), 0)
}
