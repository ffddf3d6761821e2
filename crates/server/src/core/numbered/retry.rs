//! Retryable writes: a statement and the record that it was executed are one commit.
//!
//!   record of inserts     {s: [first id, how many, ...], d: date}
//!   record of another     {s: [id, 1], r: its result, d: date}
//!
//! A statement that changed nothing leaves no record: to do it again is to do nothing again, or what
//! should be done now. So does MongoDB.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::{Durability, SessionKey, Statement, Store, WriteOptions};

use super::{Scope, count};
use crate::clock;
use crate::core::command::Context;
use crate::limits::WRITE_BATCH_COUNT_MAX;
use crate::number::truncate;
use crate::request::Request;

/// Whether the statements of the command that runs are to be executed once.
pub(crate) fn is_retryable(cx: &Context<'_>) -> bool {
    cx.scope.is_some() && cx.bound.is_none()
}

/// Refuses ids of statements that do not fit `count` statements (16, 72).
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

/// The id of the statement at `index`: from `stmtIds` or `stmtId`, else its position.
pub(crate) fn statement_id(request: &Request<'_>, index: usize) -> i32 {
    let generic = &request.generic;
    let given = generic.stmt_ids.and_then(|ids| ids.iter().nth(index)).and_then(truncate);
    let id = given.unwrap_or(i64::from(generic.stmt_id.unwrap_or(0)) + index as i64);
    i32::try_from(id.max(0)).unwrap_or(i32::MAX)
}

/// The session and number of the command that runs, for the store's log of changes; its statement is the
/// first.
pub(crate) fn statement(cx: &Context<'_>) -> Statement {
    let scope = cx.scope.as_ref();
    let (session, number) = scope.map_or(([0; 16], -1), |scope| (scope.session, scope.number));
    Statement { session, number, id: 0 }
}

/// Reads what an earlier attempt of this number has executed.
pub(super) fn load_executed(cx: &Context<'_>, scope: &mut Scope) -> Result<()> {
    if scope.state.records.iter().all(|key| key.number != scope.number) {
        return Ok(());
    }
    for record in cx.server.store.session_records(&scope.session)? {
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

/// The result of a statement that an earlier attempt executed; notes that it was requested again.
pub(crate) fn executed(cx: &mut Context<'_>, statement: i32) -> Option<DocBuf> {
    let scope = cx.scope.as_mut()?;
    let result = scope.executed.get(&statement).cloned()?;
    if scope.retried.is_empty() {
        count(&cx.server.clients.numbered.retried_commands);
    }
    scope.retried.push(statement);
    count(&cx.server.clients.numbered.retried_statements);
    Some(result)
}

/// How the result of a statement is kept.
pub(crate) struct Codec<T> {
    /// What to keep of it; none if nothing was written.
    pub(crate) write: fn(&T) -> Option<DocBuf>,
    pub(crate) read: fn(Doc<'_>) -> T,
}

/// Runs one statement, once: `f` runs in a transaction of its own that also keeps the record, or the
/// record of an earlier attempt answers. Without a number `f` just runs.
pub(crate) fn once<T>(
    cx: &mut Context<'_>,
    statement: i32,
    durability: Durability,
    codec: &Codec<T>,
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    if !is_retryable(cx) {
        return f(cx);
    }
    if let Some(result) = executed(cx, statement) {
        return Ok((codec.read)(result.as_doc()));
    }
    let write = |value: &T| (codec.write)(value).map(|result| (vec![statement], Some(result)));
    let executing = Statement { id: statement, ..self::statement(cx) };
    cx.connection.store.client().set_statement(Some(executing));
    let done = recorded(cx, durability, &write, f);
    cx.connection.store.client().set_statement(None);
    done
}

/// What was executed: ids of statements, and the result if it is one statement's.
type Executed = (Vec<i32>, Option<DocBuf>);

/// Runs `f` in a transaction with the record of what `executed` makes of its value.
pub(crate) fn recorded<T>(
    cx: &mut Context<'_>,
    durability: Durability,
    executed: &dyn Fn(&T) -> Option<Executed>,
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    let server = cx.server;
    let watch = cx.watch();
    let check = || nagi_query::Interrupt::check(&watch);
    let options = WriteOptions { durability, interrupt: Some(&check), ..WriteOptions::default() };
    let mut kept = None;
    let store = Arc::clone(&cx.connection.store);
    let written = store.write_together(options, &mut |txn| {
        kept = None;
        cx.bound = Some(Arc::clone(txn.store()));
        let result = f(cx);
        cx.bound = None;
        let value = result?;
        if let (Some((ids, result)), Some(scope)) = (executed(&value), &cx.scope) {
            kept = Some(keep(txn.store(), scope, &ids, result.as_ref())?);
            if let Some((close, failed)) = server.settings.fail_points.numbered_write() {
                cx.done.close |= close;
                cx.done.unanswered |= close;
                failed?;
            }
        }
        Ok(value)
    });
    if let (Err(_), Some(scope)) = (&written, &mut cx.scope) {
        // Whether it is there after all, the records say.
        scope.state.loaded = false;
    }
    let written = written?;
    if let (Some(key), Some(scope)) = (kept, &mut cx.scope) {
        scope.state.records.retain(|old| old.number == scope.number);
        scope.state.records.push(key);
        server.clients.numbered.record_writes.fetch_add(1, Relaxed);
    }
    Ok(written.value)
}

/// Puts the record, and takes those of older numbers out.
fn keep(store: &Store, scope: &Scope, ids: &[i32], result: Option<&DocBuf>) -> Result<SessionKey> {
    let first = ids.iter().copied().min().unwrap_or(0);
    let key = SessionKey { session: scope.session, number: scope.number, statement: first };
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
        for old in scope.state.records.iter().filter(|old| old.number != scope.number) {
            txn.delete_session_record(old)?;
        }
        txn.put_session_record(&key, record.as_doc())
    })?;
    Ok(key)
}

/// Writes `retriedStmtId`, if the one statement was answered from its record.
pub(crate) fn write_retried_one(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    if let Some(id) = cx.scope.as_ref().and_then(|scope| scope.retried.first()) {
        out.put("retriedStmtId", *id);
    }
}

/// Writes `retriedStmtIds`, if some statements were answered from records.
pub(crate) fn write_retried(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    if let Some(scope) = &cx.scope
        && !scope.retried.is_empty()
    {
        out.array("retriedStmtIds", |list| scope.retried.iter().for_each(|id| list.push(*id)));
    }
}
