//! Sessions that several routers serve: what one of them has executed is noticed by the others.
//!
//! A router reads the records of a session once, and a client that repeats a statement may do so at another router. So
//! each commit with a record of a session also writes the session's *head*, a record with the newest number:
//!
//! ```text
//!   router A   statement 5: reads head 4, writes head 5, record (5, 0)
//!   router B   statement 5, repeated:  head 5, and record (5, 0) is there  --> reads the records, answers from them
//!   router A   statement 6: head 6, record (6, 0), removes (5, 0)
//!   router B   statement 5, delayed:   head 6                              --> 225, nothing is executed
//! ```
//!
//! Two commits at the same time conflict, because both write the head. Head and records are read in one batch, which
//! the commit needs anyway for what it replaces.
//!
//! A statement that fails, or finds nothing to change, commits nothing that could meet the record: a key is there
//! because the first attempt has inserted it. Therefore a command with such a statement reads the records, and is
//! repeated if they are of another router. The statements that it has executed itself are then answered from their
//! records, too.

use nagi_bson::{Value, doc};
use nagi_error::{Code, Result, bail};
use nagi_store::{SessionKey, SessionRecord, WriteTxn};

use super::{Scope, retry, run};
use crate::clock;
use crate::core::command::Context;
use crate::number::truncate;
use crate::request::Request;

/// The `statement` of a head. With the greatest number it sorts behind all records of a session.
const HEAD: i32 = i32::MIN;

fn key(scope: &Scope) -> SessionKey {
    SessionKey { number: i64::MAX, ..super::record_key(scope, HEAD) }
}

/// Removes the head from the records of a session, and returns its number.
pub(super) fn take(records: &mut Vec<SessionRecord>) -> Option<i64> {
    let at = records.iter().position(|record| record.key.statement == HEAD)?;
    truncate(records.remove(at).doc.get("n"))
}

/// Makes the number of the command that of the session. `touched`: the records that the transaction reads or writes.
///
/// # Errors
/// 225 if the session has a later number.
pub(super) fn advance(txn: &mut WriteTxn<'_>, scope: &Scope, touched: &[SessionKey]) -> Result<()> {
    let key = key(scope);
    txn.fetch_session_records(&[&[key], touched].concat())?;
    let newest = txn.session_record(&key)?.and_then(|head| truncate(head.get("n")));
    if let Some(newest) = newest.filter(|newest| *newest > scope.number) {
        bail!(
            Code::TRANSACTION_TOO_OLD,
            "Retryable write with txnNumber {} is prohibited on session {} because a newer retryable write with \
             txnNumber {newest} has already started on this session.",
            scope.number,
            scope.session
        );
    }
    let head = doc! { "n": (scope.number), "d": (Value::DateTime(clock::wall_ms())) };
    txn.put_session_record(&key, head.as_doc())
}

/// Returns true if the command has to be repeated, because another router has executed some of its statements.
/// `failed`: it has ended with an error.
///
/// # Errors
/// 225 if the session has a later number by now, and those of the store.
pub(super) fn has_moved(cx: &mut Context<'_>, request: &Request<'_>, failed: bool) -> Result<bool> {
    if cx.server.router.is_none() || request.command.ends_transaction {
        return Ok(false);
    }
    let Some(mut scope) = cx.scope.take() else { return Ok(false) };
    let known = scope.recorded.len() + scope.retried.len();
    let moved = match scope.has_moved || failed || known < statement_count(request) {
        true => look(cx, &mut scope),
        false => Ok(false),
    };
    cx.scope = Some(scope);
    moved
}

/// Reads the records anew, and returns true if there are some of statements that were not known to be executed.
fn look(cx: &Context<'_>, scope: &mut Scope) -> Result<bool> {
    scope.state.loaded = false;
    run::load(cx, scope)?;
    run::check_number(scope, false)?;
    let before = std::mem::take(&mut scope.executed);
    retry::load_executed(cx, scope)?;
    let is_new = |id: &i32| !before.contains_key(id) && !scope.recorded.contains(id);
    let moved = scope.executed.keys().any(is_new);
    if moved {
        scope.has_moved = false;
        scope.retried.clear();
    }
    Ok(moved)
}

/// The number of statements in a retryable write.
fn statement_count(request: &Request<'_>) -> usize {
    let list = request.command.statements_in;
    if list.is_empty() {
        return 1;
    }
    let sequence = request.sequences.iter().find(|sequence| sequence.name == list);
    let in_body = || request.body.get(list).as_array().map_or(0, |list| list.count());
    sequence.map_or_else(in_body, |sequence| sequence.iter().count())
}
