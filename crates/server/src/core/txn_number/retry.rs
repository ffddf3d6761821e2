//! Retryable writes: a statement and the record of its execution are one commit (see the timeline in [`super`]).
//!
//! The key of a record is (session, transaction number, first statement id, user). The value is one of
//!
//! ```text
//!  inserts, several statements     {s: [first id, count, ...], d: date}
//!  any other, one statement        {s: [id, 1], r: its result, d: date}
//! ```
//!
//! A statement that changed nothing leaves no record. A retry executes it again: it either changes nothing again, or
//! applies to documents that exist by then. MongoDB does the same.
//!
//! The first commit of a new number also deletes the records of older numbers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_budget::meter;
use nagi_error::{Code, Error, Result, bail};
use nagi_store::{SessionKey, Statement, Store, WriteOptions};

use super::{Scope, count, head, record_key};
use crate::clock;
use crate::core::command::Context;
use crate::limits::WRITE_BATCH_COUNT_MAX;
use crate::number::truncate;
use crate::request::Request;
use crate::session::SessionId;

/// Returns true if the running command is a retryable write, whose statements are executed once.
pub(crate) fn is_retryable(cx: &Context<'_>) -> bool {
    cx.scope.is_some() && cx.bound.is_none()
}

/// Refuses statement ids whose count differs from `count` (16), and `stmtId` together with `stmtIds` (72).
pub(crate) fn check_statements(request: &Request<'_>, count: usize) -> Result<()> {
    let Some(ids) = request.generic.stmt_ids else { return Ok(()) };
    let given = ids.count();
    if given != count {
        bail!(
            Code::INVALID_LENGTH,
            "Number of statement ids must match the number of batch entries. Got {given} statement \
             ids but {count} operations."
        );
    }
    if let Some(id) = request.generic.stmt_id {
        bail!(
            Code::INVALID_OPTIONS,
            "May not specify both stmtId and stmtIds in write command. Got {{ stmtId: {id}, \
             stmtIds: {} }}.",
            nagi_bson::text::value_text(Value::Array(ids))
        );
    }
    Ok(())
}

/// The id of the statement at `index`: from `stmtIds` or `stmtId`, otherwise its position.
pub(crate) fn statement_id(request: &Request<'_>, index: usize) -> i32 {
    let generic = &request.generic;
    let given = generic.stmt_ids.and_then(|ids| ids.iter().nth(index)).and_then(truncate);
    let id = given.unwrap_or(i64::from(generic.stmt_id.unwrap_or(0)) + index as i64);
    i32::try_from(id.max(0)).unwrap_or(i32::MAX)
}

/// The session and the number of the running command, for the store's change log; the statement id is 0.
pub(crate) fn statement(cx: &Context<'_>) -> Statement {
    let scope = cx.scope.as_ref();
    let none = SessionId { id: [0; 16], uid: cx.connection.user_digest() };
    let (session, number) = scope.map_or((none, -1), |scope| (scope.session, scope.number));
    let last = scope.and_then(|scope| scope.state.last.filter(|last| last.0 == number));
    let before = last.map(|last| last.1);
    Statement { session: session.id, user: session.uid, number, id: 0, before }
}

/// Reads which statements an earlier attempt with this number executed.
pub(super) fn load_executed(cx: &Context<'_>, scope: &mut Scope) -> Result<()> {
    if scope.state.records.iter().all(|key| key.number != scope.number) {
        return Ok(());
    }
    let session = &scope.session;
    for record in cx.server.store.session_records(&session.id, &session.uid)? {
        if record.key.number != scope.number {
            continue;
        }
        let doc = record.doc.as_doc();
        let result = doc.get("r").as_doc().unwrap_or(Doc::EMPTY);
        let ranges = doc.get("s").as_array().map(|list| list.iter().collect::<Vec<_>>());
        for range in ranges.unwrap_or_default().chunks(2) {
            let number = |at: usize| range.get(at).copied().and_then(truncate).unwrap_or(0);
            let count = number(1).clamp(0, WRITE_BATCH_COUNT_MAX as i64);
            for id in number(0)..number(0) + count {
                scope.executed.insert(id as i32, result.to_buf());
            }
        }
    }
    Ok(())
}

/// Returns the result of a statement that an earlier attempt executed, and counts it as retried.
pub(crate) fn executed(cx: &mut Context<'_>, statement: i32) -> Option<DocBuf> {
    let scope = cx.scope.as_mut()?;
    let result = scope.executed.get(&statement).cloned()?;
    if scope.retried.is_empty() {
        count(&cx.server.clients.txn_sessions.retried_commands);
    }
    scope.retried.push(statement);
    count(&cx.server.clients.txn_sessions.retried_statements);
    Some(result)
}

/// Returns true if an earlier attempt executed one of these statements.
pub(crate) fn any_executed(cx: &Context<'_>, statements: &[i32]) -> bool {
    let executed = |scope: &Scope| statements.iter().any(|id| scope.executed.contains_key(id));
    cx.scope.as_ref().is_some_and(|scope| executed(scope))
}

/// Converts the result of a statement to and from its stored form.
pub(crate) struct Codec<T> {
    /// The stored form; `None` if nothing was written.
    pub(crate) write: fn(&T) -> Option<DocBuf>,
    pub(crate) read: fn(Doc<'_>) -> T,
}

/// How often a statement that gave its memory to others is repeated.
const MEMORY_REPEATS: usize = 10;

/// Runs one statement at most once. If an earlier attempt has left a record, the record is the answer. Otherwise `f`
/// runs in a store transaction that also writes the record. For a command that is no retryable write it only calls `f`.
///
/// A statement that has changed nothing because other requests needed its memory to go on is repeated: it has released
/// that, so it waits for them.
pub(crate) fn once<T>(
    cx: &mut Context<'_>,
    statement: i32,
    codec: &Codec<T>,
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    let before = cx.connection.store.client().committed();
    for _ in 0..MEMORY_REPEATS {
        let done = once_now(cx, statement, codec, f);
        let lacks_memory = |error: &Error| error.code() == Code::EXCEEDED_MEMORY_LIMIT;
        let repeats = done.as_ref().err().is_some_and(lacks_memory)
            && meter::take_gave_way()
            && cx.bound.is_none()
            && cx.connection.store.client().committed() == before;
        if !repeats {
            return done;
        }
        cx.check()?;
    }
    once_now(cx, statement, codec, f)
}

fn once_now<T>(
    cx: &mut Context<'_>,
    statement: i32,
    codec: &Codec<T>,
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    if !is_retryable(cx) {
        return f(cx);
    }
    if let Some(result) = executed(cx, statement) {
        return Ok((codec.read)(result.as_doc()));
    }
    let write = |value: &T| {
        let result = (codec.write)(value);
        result.map(|result| (vec![statement], Some(result))).into_iter().collect()
    };
    let executing = Statement { id: statement, ..self::statement(cx) };
    cx.connection.store.client().set_statement(Some(executing));
    let done = recorded(cx, &write, f);
    cx.connection.store.client().set_statement(None);
    done
}

/// Runs `f`, whose reads and writes see one snapshot: that of the transaction to which the command is bound, or of one
/// that is repeated after conflicts.
pub(crate) fn in_one_snapshot<T>(
    cx: &mut Context<'_>,
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    match cx.bound.is_some() {
        true => f(cx),
        false => recorded(cx, &|_| Vec::new(), f),
    }
}

/// Executed statements: their ids, and the result that each of them had, if it is kept.
pub(crate) type Executed = (Vec<i32>, Option<DocBuf>);

/// Runs `f` in a store transaction and writes the records of the statements that `executed` derives from its value.
pub(crate) fn recorded<T>(
    cx: &mut Context<'_>,
    executed: &dyn Fn(&T) -> Vec<Executed>,
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    let server = cx.server;
    let watch = cx.watch();
    let check = || nagi_query::Interrupt::check(&watch);
    let options = WriteOptions { interrupt: Some(&check), ..WriteOptions::default() };
    let (mut kept, mut recorded) = (Vec::new(), Vec::new());
    let mut moved = false;
    let store = Arc::clone(&cx.connection.store);
    let written = store.write_together(options, &mut |txn| {
        kept.clear();
        recorded.clear();
        cx.bound = Some(Arc::clone(txn.store()));
        let result = f(cx);
        cx.bound = None;
        let value = result?;
        if let Some(scope) = &cx.scope {
            for (ids, result) in executed(&value) {
                let of = (scope.as_ref(), server.router.is_some());
                kept.push(keep(txn.store(), of, (&ids, result.as_ref()), &mut moved)?);
                recorded.extend(ids);
            }
        }
        if !kept.is_empty()
            && let Some((close, failed)) = server.settings.fail_points.numbered_write()
        {
            cx.done.close |= close;
            cx.done.unanswered |= close;
            failed?;
        }
        Ok(value)
    });
    if let (Err(_), Some(scope)) = (&written, &mut cx.scope) {
        // The commit may have succeeded all the same; the next command reads the records to find out.
        scope.state.loaded = false;
        scope.has_moved |= moved;
    }
    let written = written?;
    if let (false, Some(scope)) = (kept.is_empty(), &mut cx.scope) {
        scope.state.records.retain(|old| old.number == scope.number);
        let term = store.client().logged_term();
        server.clients.txn_sessions.record_writes.fetch_add(kept.len() as i64, Relaxed);
        scope.state.records.append(&mut kept);
        scope.recorded.append(&mut recorded);
        scope.state.last = written.stamp.get().map(|stamp| (scope.number, (stamp.0, term)));
    }
    Ok(written.value)
}

/// Writes the record and deletes the records of older numbers. `moved` becomes true if another router has executed the
/// statement, or has reached a later number: see [`head`].
fn keep(
    store: &Store,
    (scope, is_router): (&Scope, bool),
    (ids, result): (&[i32], Option<&DocBuf>),
    moved: &mut bool,
) -> Result<SessionKey> {
    let first = ids.iter().copied().min().unwrap_or(0);
    let key = record_key(scope, first);
    let record = DocBuf::build(|w| {
        w.array("s", |list| {
            for range in ids.chunk_by(|a, b| a + 1 == *b) {
                list.push(range[0]);
                list.push(range.len() as i32);
            }
        });
        if let Some(result) = result {
            w.put("r", result);
        }
        w.put("d", Value::DateTime(clock::wall_ms()));
    });
    store.write(WriteOptions::default(), &mut |txn| {
        if is_router {
            let olds = scope.state.records.iter().filter(|old| old.number != scope.number);
            let touched: Vec<_> = olds.copied().chain([key]).collect();
            let advanced = head::advance(txn, scope, &touched);
            *moved |= advanced.is_err() || txn.session_record(&key)?.is_some();
            advanced?;
            if *moved {
                bail!(
                    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
                    "another node has executed the statement; retry it to find out its result"
                );
            }
        }
        for old in scope.state.records.iter().filter(|old| old.number != scope.number) {
            txn.delete_session_record(old)?;
        }
        txn.put_session_record(&key, record.as_doc())
    })?;
    Ok(key)
}

/// Writes `retriedStmtId` if the statement was answered from its record.
pub(crate) fn write_retried_one(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    if let Some(id) = cx.scope.as_ref().and_then(|scope| scope.retried.first()) {
        out.put("retriedStmtId", *id);
    }
}

/// Writes `retriedStmtIds` if any statement was answered from its record.
pub(crate) fn write_retried(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    if let Some(scope) = &cx.scope
        && !scope.retried.is_empty()
    {
        out.array("retriedStmtIds", |list| scope.retried.iter().for_each(|id| list.push(*id)));
    }
}
