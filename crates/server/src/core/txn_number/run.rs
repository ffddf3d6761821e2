//! Runs commands with a transaction number: the state machine of a session (see the drawing in [`super`]).
//!
//! [`run`] wraps the command's own function:
//!
//! 1. Lock the session's slot and move its state into a [`Scope`]. Another command of the same session waits here.
//! 2. Read the session's records from the store if that has not happened since the start or since a failed commit.
//! 3. Check the number: a smaller one than the session's is refused (225).
//! 4. Begin: open or find the transaction and bind the context to it, or load the statements that an earlier attempt of
//!    the retryable write executed.
//! 5. Run the command. [`commit`] and [`abort`] are called from within it.
//! 6. After a statement of a transaction, abort the transaction if the statement failed or the transaction was ended
//!    from outside.
//! 7. Move the state back into the slot.

use std::sync::Arc;
use std::time::Duration;

use nagi_bson::{Doc, DocWriter};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_store::{Durability, End, Lifetime, Statement, Store, Transaction, WriteOptions};
use parking_lot::MutexGuard;

use super::{
    LastClient, Open, Phase, Scope, Slot, State, WHOLE, committed_record, count, head,
    is_committed, record_key, recovery,
};
use crate::clock;
use crate::core::command::Context;
use crate::core::snapshots::too_old;
use crate::fsync::Writer;
use crate::request::Request;

/// Interval of the interrupt checks of a command that waits for its session.
const POLL: Duration = Duration::from_millis(5);

/// Runs a command that has a session and a transaction number; `inner` is the command's own function. Without them it
/// only calls `inner`.
pub(crate) fn run(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    out: &mut DocWriter<'_>,
    inner: fn(&mut Context<'_>, &Request<'_>, &mut DocWriter<'_>) -> Result<()>,
) -> Result<()> {
    let generic = &request.generic;
    let (Some(session), Some(number)) = (generic.lsid, generic.txn_number) else {
        return inner(cx, request, out);
    };
    let slot = cx.server.clients.txn_sessions.slot(&session);
    let mut place = lock(cx, &slot)?;
    let mut scope = Scope {
        session,
        number,
        slot: Arc::clone(&slot),
        state: std::mem::take(&mut *place),
        executed: Default::default(),
        retried: Vec::new(),
        recorded: Vec::new(),
        has_moved: false,
    };
    let in_transaction = generic.autocommit.is_some();
    let begun =
        load(cx, &mut scope).and_then(|()| check_number(&scope, in_transaction)).and_then(|()| {
            match (request.command.ends_transaction, in_transaction) {
                (true, _) => Ok(()),
                (false, true) => begin_statement(cx, request, &mut scope),
                (false, false) => begin_writes(cx, &mut scope),
            }
        });
    if let Err(error) = begun {
        *place = scope.state;
        return Err(error);
    }
    cx.scope = Some(Box::new(scope));
    let result = run_known(cx, request, out, inner);
    if let Some(store) = cx.bound.take() {
        // The audit log tells of a statement on users what it is, and of its commit that it took effect.
        let client = cx.connection.store.client();
        client.note_changed_users(store.client().take_changed_users());
    }
    let Some(mut scope) = cx.scope.take() else {
        return Err(Error::bug("a command with a transaction number lost its session"));
    };
    let result = match in_transaction && !request.command.ends_transaction {
        true => end_statement(cx, &mut scope, result),
        false => result,
    };
    if in_transaction && result.is_ok() && cx.server.router.is_some() {
        recovery::write_token(&scope, out);
    }
    *place = scope.state;
    result
}

/// Runs the command's own function, again if another router turns out to have executed some of its statements.
fn run_known(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    out: &mut DocWriter<'_>,
    inner: fn(&mut Context<'_>, &Request<'_>, &mut DocWriter<'_>) -> Result<()>,
) -> Result<()> {
    let start = out.mark();
    loop {
        let result = inner(cx, request, out);
        if request.generic.autocommit.is_some() || !head::has_moved(cx, request, result.is_err())? {
            return result;
        }
        out.truncate(start);
    }
}

/// Waits until no other command of the session runs.
fn lock<'s>(cx: &Context<'_>, slot: &'s Slot) -> Result<MutexGuard<'s, State>> {
    loop {
        if let Some(state) = slot.state.try_lock_for(POLL) {
            return Ok(state);
        }
        cx.check()?;
    }
}

/// Reads the session's records if necessary: after a restart, and after a commit whose outcome is unknown.
pub(super) fn load(cx: &Context<'_>, scope: &mut Scope) -> Result<()> {
    let state = &mut scope.state;
    if state.loaded {
        return Ok(());
    }
    let mut records = cx.server.store.session_records(&scope.session.id, &scope.session.uid)?;
    let newest = head::take(&mut records);
    if let Some(last) = records.last()
        && last.key.number >= state.number
    {
        state.number = last.key.number;
        let mut newest = records.iter().filter(|record| record.key.number == state.number);
        let whole = newest.find(|record| record.key.statement == WHOLE);
        state.phase = match whole {
            Some(record) if is_committed(record.doc.as_doc()) => Phase::Committed,
            Some(_) => Phase::Aborted,
            None => Phase::Writes,
        };
        state.has_written = whole.is_some();
        state.is_undecided &= whole.is_none();
    }
    if let Some(newest) = newest.filter(|newest| *newest > state.number) {
        state.number = newest;
        state.phase = Phase::Writes;
    }
    state.records = records.iter().map(|record| record.key).collect();
    state.loaded = true;
    Ok(())
}

/// Refuses a number smaller than the session's current one (225).
pub(super) fn check_number(scope: &Scope, in_transaction: bool) -> Result<()> {
    let (asked, active) = (scope.number, scope.state.number);
    if asked >= active {
        return Ok(());
    }
    if in_transaction {
        bail!(
            Code::TRANSACTION_TOO_OLD,
            "Cannot start transaction {asked} on session {} because a newer transaction {active} has \
             already started on this session.",
            scope.session
        );
    }
    let kind = match scope.state.phase {
        Phase::Writes => "retryable write",
        _ => "transaction",
    };
    bail!(
        Code::TRANSACTION_TOO_OLD,
        "Retryable write with txnNumber {asked} is prohibited on session {} because a newer {kind} \
         with txnNumber {active} has already started on this session.",
        scope.session
    )
}

/// Begins a retryable write with a new number, or a retry with the current number.
fn begin_writes(cx: &Context<'_>, scope: &mut Scope) -> Result<()> {
    if scope.number > scope.state.number {
        leave(cx, scope);
        scope.state.number = scope.number;
        scope.state.phase = Phase::Writes;
        return Ok(());
    }
    if !matches!(scope.state.phase, Phase::Writes) {
        bail!(
            Code::INCOMPLETE_TRANSACTION_HISTORY,
            "Incomplete history detected for transaction {} on session {}",
            scope.number,
            scope.session
        );
    }
    super::retry::load_executed(cx, scope)
}

/// Aborts the open transaction of the previous number, if there is one.
pub(super) fn leave(cx: &Context<'_>, scope: &mut Scope) {
    if matches!(scope.state.phase, Phase::Open(_)) {
        set_aborted(cx, scope);
    }
}

fn set_aborted(cx: &Context<'_>, scope: &mut Scope) {
    let before = std::mem::replace(&mut scope.state.phase, Phase::Aborted);
    cx.server.clients.txn_sessions.end_open(&scope.slot);
    if let Phase::Open(txn) = before {
        txn.end(End::Aborted);
        cx.server.clients.cursors.end_transaction(&scope.session, scope.state.number);
    }
}

pub(super) fn aborted(number: i64) -> Error {
    err!(Code::NO_SUCH_TRANSACTION, "Transaction with {{ txnNumber: {number} }} has been aborted.")
}

fn committed(number: i64) -> Error {
    err!(
        Code::TRANSACTION_COMMITTED,
        "Transaction with {{ txnNumber: {number} }} has been committed."
    )
}

fn unknown(scope: &Scope) -> Error {
    err!(
        Code::NO_SUCH_TRANSACTION,
        "Given transaction number {} does not match any in-progress transactions. The active \
         transaction number is {}",
        scope.number,
        scope.state.number
    )
}

/// Begins the transaction or finds the open one, and binds the context to it.
fn begin_statement(cx: &mut Context<'_>, request: &Request<'_>, scope: &mut Scope) -> Result<()> {
    let txn = match request.generic.start_transaction {
        Some(_) => start(cx, request, scope)?,
        None => find_open(cx, scope)?,
    };
    if request.generic.start_transaction.is_none() {
        cx.writer = Writer::OpenTransaction;
    }
    if let Some(open) = scope.slot.open.lock().as_mut() {
        open.begin(cx.op);
    }
    let pipeline = request.body.get("pipeline").as_array();
    if let Some(stage) = pipeline.and_then(nagi_query::refused_in_transaction) {
        set_aborted(cx, scope);
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Stage not supported inside of a multi-document transaction: {stage}"
        );
    }
    cx.bound = Some(Arc::clone(txn.store()));
    Ok(())
}

fn start(cx: &Context<'_>, request: &Request<'_>, scope: &mut Scope) -> Result<Arc<Transaction>> {
    if scope.number == scope.state.number {
        let open = matches!(scope.state.phase, Phase::Open(_));
        bail!(
            Code::CONFLICTING_OPERATION_IN_PROGRESS,
            "Cannot specify 'startTransaction' on transaction {} since it is already {}.",
            scope.number,
            if open { "in progress" } else { "over" }
        );
    }
    leave(cx, scope);
    // The transaction has a client handle of its own because its statements may arrive over several connections.
    let store = cx.server.store.for_client();
    if cx.server.audit.is_some() {
        store.client().note_catalog_changes();
    }
    store.client().set_statement(Some(Statement {
        session: scope.session.id,
        user: scope.session.uid,
        number: scope.number,
        id: WHOLE,
        before: None,
    }));
    let txn = Arc::new(begin_at(cx, request.generic.read_concern.at_cluster_time, &store)?);
    *scope.slot.open.lock() = Some(Open {
        txn: Arc::clone(&txn),
        number: scope.number,
        since: clock::now(),
        level: request.generic.read_concern.level.map(Into::into),
        active_micros: 0,
        running_since: None,
        client: LastClient::of(cx.op),
    });
    scope.state.number = scope.number;
    scope.state.has_written = false;
    scope.state.is_undecided = false;
    scope.state.phase = Phase::Open(Arc::clone(&txn));
    count(&cx.server.clients.txn_sessions.started);
    Ok(txn)
}

/// Begins a transaction with the state of a cluster time. A transaction reads and writes on the newest state, so 239 if
/// there were commits after that time.
fn begin_at(cx: &Context<'_>, time: Option<u64>, store: &Store) -> Result<Transaction> {
    let Some((time, clock)) = time.zip(cx.server.cluster_clock()) else {
        return Transaction::begin(store, Lifetime::Long);
    };
    clock.read_at(time)?;
    let txn = Transaction::begin(store, Lifetime::Long)?;
    if txn.read_stamp().0 > time {
        return Err(too_old(time));
    }
    Ok(txn)
}

/// Returns the open transaction with this number. A transaction that was ended from outside is marked as aborted.
fn find_open(cx: &Context<'_>, scope: &mut Scope) -> Result<Arc<Transaction>> {
    if scope.number != scope.state.number {
        return Err(unknown(scope));
    }
    let txn = match &scope.state.phase {
        Phase::Open(txn) => Arc::clone(txn),
        Phase::Writes => return Err(unknown(scope)),
        Phase::Committed => return Err(committed(scope.number)),
        Phase::Aborted => return Err(aborted(scope.number)),
    };
    match txn.ended() {
        None => Ok(txn),
        Some(why) => {
            set_aborted(cx, scope);
            Err(ended(&txn, why, scope.number))
        }
    }
}

fn ended(txn: &Transaction, why: End, number: i64) -> Error {
    match (why, txn.check_open()) {
        (End::CatalogChanged | End::TooLarge, Err(error)) => error,
        _ => aborted(number),
    }
}

/// Finishes a statement: any error aborts the transaction. If the transaction was ended from outside meanwhile, the
/// statement fails too.
fn end_statement(cx: &mut Context<'_>, scope: &mut Scope, result: Result<()>) -> Result<()> {
    if let Some(open) = scope.slot.open.lock().as_mut() {
        open.end();
    }
    let failed = result.is_err() || std::mem::take(&mut cx.failed);
    let Phase::Open(txn) = &scope.state.phase else { return result };
    let txn = Arc::clone(txn);
    let why = txn.ended();
    scope.state.has_written |= txn.has_written();
    if failed || why.is_some() {
        set_aborted(cx, scope);
    }
    match (result, why) {
        (Ok(()), Some(why)) | (_, Some(why @ (End::CatalogChanged | End::TooLarge))) => {
            Err(ended(&txn, why, scope.number))
        }
        (result, _) => result,
    }
}

/// Runs `commitTransaction`. Must be called within [`run`]. `token`: the recovery token of the request.
pub(crate) fn commit(
    cx: &mut Context<'_>,
    durability: Durability,
    token: Option<Doc<'_>>,
) -> Result<()> {
    let Some(mut scope) = cx.scope.take() else { return Err(not_within()) };
    let result = match recovery::is_due(cx, &scope, token) {
        Ok(true) => recovery::decide(cx, &mut scope),
        Ok(false) => commit_scope(cx, &mut scope, durability),
        Err(error) => Err(error),
    };
    cx.scope = Some(scope);
    result
}

fn commit_scope(cx: &Context<'_>, scope: &mut Scope, durability: Durability) -> Result<()> {
    if scope.number == scope.state.number && matches!(scope.state.phase, Phase::Committed) {
        // A repeated commit may have a stronger write concern than the first: then it syncs the log.
        return match durability {
            Durability::Synced => cx.server.store.flush(),
            Durability::Buffered => Ok(()),
        };
    }
    let txn = find_open(cx, scope)?;
    let key = record_key(scope, WHOLE);
    if txn.has_written() {
        let record = committed_record();
        let old = std::mem::take(&mut scope.state.records);
        let recorded = txn.store().write(WriteOptions::default(), &mut |txn| {
            if cx.server.router.is_some() {
                head::advance(txn, scope, &[&[key], &*old].concat())?;
            }
            old.iter().try_for_each(|key| txn.delete_session_record(key))?;
            txn.put_session_record(&key, record.as_doc())
        });
        scope.state.records = vec![key];
        if let Err(error) = recorded {
            scope.state.loaded = false;
            set_aborted(cx, scope);
            return Err(error);
        }
        count(&cx.server.clients.txn_sessions.record_writes);
    }
    match txn.commit(durability) {
        Ok(stamp) => {
            let client = cx.connection.store.client();
            client.note_commit(stamp);
            client.note_catalog(txn.store().client().take_catalog_changes());
            client.note_changed_users(txn.store().client().take_changed_users());
            cx.server.clients.txn_sessions.committed(&scope.slot);
            scope.state.phase = Phase::Committed;
            cx.server.clients.cursors.end_transaction(&scope.session, scope.number);
            Ok(())
        }
        Err(error) => {
            set_aborted(cx, scope);
            // The commit may have succeeded all the same; the next command reads the records to find out.
            scope.state.loaded = false;
            scope.state.is_undecided = error.code() == Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE;
            Err(error)
        }
    }
}

/// Runs `abortTransaction`. Must be called within [`run`].
pub(crate) fn abort(cx: &mut Context<'_>) -> Result<()> {
    let Some(mut scope) = cx.scope.take() else { return Err(not_within()) };
    let result = find_open(cx, &mut scope).map(drop);
    if result.is_ok() {
        set_aborted(cx, &mut scope);
    }
    cx.scope = Some(scope);
    result
}

fn not_within() -> Error {
    err!(Code::COMMAND_FAILED, "the command must be run within a transaction")
}
