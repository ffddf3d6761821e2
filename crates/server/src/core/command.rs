//! A command is a row of the table [`crate::commands::COMMANDS`]: its facts, its access rule, its function.
//!
//! Dispatch, `listCommands`, `opcounters` and the checks before a run are derived from the rows. Everything that they
//! need to know about a command therefore stands in its row.
//!
//! [`Context`] is what the command's function works with. [`Watch`] is the interrupt check of long work.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use nagi_bson::{DocBuf, DocWriter};
use nagi_error::{Code, Result, bail};
use nagi_lang::expr::System;
use nagi_lang::script::Scripts;
use nagi_query::{ExecutionStats, Hypothesis, Interrupt as _, Side, Verbosity, Work};
use nagi_store::{KeysWritten, Store, WriteOptions, WriteTxn};

use crate::auth::Action;
use crate::clock;
use crate::core::access::{Access, Asking};
use crate::core::connection::Connection;
use crate::fsync::{Writer, Writing};
use crate::metrics::OpKind;
use crate::metrics::locks::{LockMode, LockUse};
use crate::metrics::write_concerns::Tried;
use crate::query_stats::Observed;
use crate::replica::ClusterClock;
use crate::request::concern::WriteConcern;

use crate::core::server::Server;
use crate::core::txn_number::Scope;
use crate::interruption::interruption;
use crate::message_memory::Before;
use crate::op::Op;
use crate::request::{Facts, Request};
use crate::settings::params;
use crate::tickets::{Held, Pool, Ticket};
use crate::timeslice;

/// The function that explains a request.
pub(crate) type Explain =
    fn(&mut Context<'_>, &Request<'_>, Verbosity, &mut DocWriter<'_>) -> Result<()>;

/// A row of the command table. Rows are written as
/// `Command { facts: Facts { name: ..., ..Facts::ROW }, access: ..., run, ..Command::ROW }`.
pub(crate) struct Command {
    pub(crate) facts: Facts,
    /// The privileges that a client needs to run it, where authorization is on.
    pub(crate) access: Access,
    pub(crate) run: fn(&mut Context<'_>, &Request<'_>, &mut DocWriter<'_>) -> Result<()>,
    /// Explains a request of this command; `None` where there is nothing to explain.
    pub(crate) explain: Option<Explain>,
    /// Writes the details of the audit message that records each run, under the command's name; `None` where runs are
    /// not recorded so.
    pub(crate) audited: Option<fn(&Request<'_>, &mut DocWriter<'_>)>,
    /// Checks a request that query settings are being set for; `None` where the command has no query settings.
    pub(crate) check_settings: Option<fn(&Context<'_>, &Request<'_>) -> Result<()>>,
}

impl Command {
    /// Defaults for rows. A row without an access rule must be one that runs before a client has logged in.
    pub(crate) const ROW: Command = Command {
        facts: Facts::ROW,
        access: Access::Undeclared,
        run: |_, request, _| {
            bail!(Code::NOT_IMPLEMENTED, "command {} has no function", request.command.name)
        },
        explain: None,
        audited: None,
        check_settings: None,
    };
}

impl std::ops::Deref for Command {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

/// Everything that a command's function works with.
pub(crate) struct Context<'c> {
    pub(crate) server: &'c Arc<Server>,
    /// The row of the request's command.
    pub(crate) command: &'static Command,
    pub(crate) connection: &'c mut Connection,
    pub(crate) op: &'c Arc<Op>,
    pub(crate) started: Instant,
    /// When `maxTimeMS` has passed.
    pub(crate) deadline: Option<Instant>,
    /// The same for a getMore, which it limits only in its wait for data.
    pub(crate) await_until: Option<Instant>,
    /// The pool of the request's ticket, and the ticket while the request holds one.
    pub(crate) pool: Option<&'c Pool>,
    pub(crate) ticket: Option<Ticket<'c>>,
    /// Statistics of the request, for the log of slow operations, the profile and the counters.
    pub(crate) done: Done,
    /// The session's state while a retryable write or a transaction statement runs.
    pub(crate) scope: Option<Box<Scope>>,
    /// For the lock of `fsync`.
    pub(crate) writer: Writer,
    /// The store handle of the transaction or snapshot in which the request runs.
    pub(crate) bound: Option<Arc<Store>>,
    /// The cluster time of a snapshot read, for the reply.
    pub(crate) at_cluster_time: Option<u64>,
    /// A statement of a batch failed. In a transaction this aborts the transaction.
    pub(crate) failed: bool,
    /// Statistics of the request's writes and of the locks that it took.
    pub(crate) effects: Effects,
    /// The memory that was held when the request began.
    pub(crate) before: Before,
    /// The indexes that the explained command is tried with.
    pub(crate) on_trial: Option<OnTrial>,
}

/// Indexes that do not exist, with which a command is explained.
pub(crate) enum OnTrial {
    /// Specifications, of which a sample is yet to be made.
    Specs(Vec<DocBuf>),
    /// The advisor explains many commands on one sample.
    Sampled(Box<Sampled>),
}

/// A command that is explained on a sample which exists already.
pub(crate) struct Sampled {
    pub(crate) hypothesis: Arc<Hypothesis>,
    /// The indexes that are on trial together.
    pub(crate) indexes: Vec<String>,
    /// The plans without and with it, once the command was explained.
    pub(crate) sides: Option<(Side, Side)>,
}

/// Statistics and outcome of a request.
#[derive(Debug, Default, Clone)]
pub(crate) struct Done {
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    /// Documents in this reply, or values of `distinct`.
    pub(crate) returned: Option<u64>,
    /// 1 for the result of `count`, which is no document: the profile and the log do not have it as `nreturned`.
    pub(crate) found_values: u64,
    /// Statements of inserts, updates and deletes that were tried.
    pub(crate) tried: Tried,
    pub(crate) inserted: Option<u64>,
    pub(crate) matched: Option<u64>,
    pub(crate) modified: Option<u64>,
    pub(crate) upserted: Option<u64>,
    pub(crate) deleted: Option<u64>,
    pub(crate) keys_inserted: u64,
    pub(crate) keys_deleted: u64,
    pub(crate) write_conflicts: u64,
    pub(crate) yields: u64,
    /// Statements of writes that read the whole collection.
    pub(crate) collection_scans: u64,
    pub(crate) locks: LockUse,
    /// The stages that ran, as explain shows them; recorded only if the request is profiled.
    pub(crate) stages: Option<nagi_bson::DocBuf>,
    /// The statements have reported themselves to the profile and the log.
    pub(crate) statements: bool,
    /// Code and text of the last failed statement of a write that is answered with `ok: 1`.
    pub(crate) write_error: Option<(nagi_error::Code, String)>,
    pub(crate) cursor_id: i64,
    pub(crate) cursor_exhausted: bool,
    pub(crate) has_sort_stage: bool,
    pub(crate) used_disk: bool,
    pub(crate) from_multi_planner: bool,
    pub(crate) from_plan_cache: bool,
    /// For a cached plan that was replaced: the expected and the actual work.
    pub(crate) replanned: Option<(u64, u64)>,
    /// Hashes of the query's shape and of its key in the plan cache; 0 if the query was not planned.
    pub(crate) query_hash: u32,
    pub(crate) plan_cache_key: u32,
    /// The summary of a plan that is too simple to be copied into the operation.
    pub(crate) plan_summary: &'static str,
    /// The command whose cursor the getMore continued.
    pub(crate) originating: Option<Arc<nagi_bson::DocBuf>>,
    /// The getMore continued a cursor of a client with Queryable Encryption.
    pub(crate) encrypted: bool,
    /// The reply is one of an exhaust stream: net requests the next reply immediately.
    pub(crate) stream: bool,
    /// The request reads a change stream.
    pub(crate) change_stream: bool,
    /// The request spent its time waiting because the client requested it, so it is not a slow operation.
    pub(crate) waited: bool,
    /// Send no reply, as if the network had failed.
    pub(crate) unanswered: bool,
    /// Close the connection after the reply.
    pub(crate) close: bool,
}

impl Done {
    /// What query statistics keep of a request that took `micros` and waited `queued_micros` for a ticket.
    pub(crate) fn observed(&self, micros: u64, queued_micros: u64) -> Observed {
        Observed {
            micros,
            first_micros: micros,
            working_micros: micros.saturating_sub(queued_micros + self.locks.wait_micros),
            returned: self.returned.unwrap_or(self.found_values),
            keys_examined: self.keys_examined,
            docs_examined: self.docs_examined,
            has_sort_stage: self.has_sort_stage,
            used_disk: self.used_disk,
            from_multi_planner: self.from_multi_planner,
            from_plan_cache: self.from_plan_cache,
        }
    }

    /// Records a query's statistics and how it was planned.
    pub(crate) fn note(&mut self, stats: &nagi_query::ExecutionStats) {
        self.keys_examined = stats.keys_examined;
        self.docs_examined = stats.docs_examined;
        self.has_sort_stage = stats.has_sort_stage;
        self.used_disk = stats.used_disk;
        self.from_multi_planner = stats.from_multi_planner;
        self.from_plan_cache = stats.from_plan_cache;
        self.replanned = stats.replanned;
        self.query_hash = stats.query_hash;
        self.plan_cache_key = stats.plan_cache_key;
    }

    /// Raises the examined keys and documents to those that the interrupt checks have reported.
    pub(crate) fn examined_at_least(&mut self, (keys, docs): (u64, u64)) {
        self.keys_examined = self.keys_examined.max(keys);
        self.docs_examined = self.docs_examined.max(docs);
    }

    /// As [`Done::note`], with the statistics of writes.
    pub(crate) fn note_work(&mut self, work: &Work) {
        if *work != Work::default() {
            let stats = ExecutionStats {
                keys_examined: work.stats.keys_examined + self.keys_examined,
                docs_examined: work.stats.docs_examined + self.docs_examined,
                ..work.stats
            };
            self.note(&stats);
        }
        self.keys_inserted = work.keys_inserted;
        self.keys_deleted = work.keys_deleted;
        self.write_conflicts = work.write_conflicts;
        self.yields = work.yields;
        self.collection_scans = work.collection_scans;
    }
}

/// Statistics of the request's writes so far. Statements run with a shared [`Context`], so these are cells.
#[derive(Default)]
pub(crate) struct Effects {
    work: Cell<Work>,
    locks: Cell<LockUse>,
    tried: Cell<Tried>,
    stages: RefCell<Option<nagi_bson::DocBuf>>,
}

impl Effects {
    /// Adds the work of the statement that ran in `env`, whether it succeeded or not.
    pub(crate) fn note(&self, env: &nagi_query::Env<'_>) {
        self.add(&env.work());
        if let Some(stages) = env.take_stages() {
            *self.stages.borrow_mut() = Some(stages);
        }
    }

    /// Returns the work of one statement since [`Effects::begin_statement`]; `before` is the return value of that call.
    pub(crate) fn end_statement(&self, before: Work) -> Work {
        let work = self.work.replace(before);
        self.add(&work);
        work
    }

    /// Starts to count the work of one statement apart from that of the statements before it.
    pub(crate) fn begin_statement(&self) -> Work {
        self.work.take()
    }

    /// The statements so far that read the whole collection.
    pub(crate) fn collection_scans(&self) -> u64 {
        self.work.get().collection_scans
    }

    /// Takes the stages of the statement that has just finished, if they are recorded.
    pub(crate) fn take_stages(&self) -> Option<nagi_bson::DocBuf> {
        self.stages.take()
    }

    fn add(&self, more: &Work) {
        let mut work = self.work.get();
        work.add(more);
        self.work.set(work);
    }

    fn lock(&self) {
        let locks = self.locks.get();
        self.locks.set(LockUse { global_count: locks.global_count + 1, ..locks });
    }

    fn lock_wait(&self, micros: u64) {
        let mut locks = self.locks.get();
        locks.wait_count += 1;
        locks.wait_micros += micros;
        self.locks.set(locks);
    }

    /// Moves all statistics into `done` at the end of the request.
    pub(crate) fn settle(&self, done: &mut Done) {
        let work = self.work.take();
        done.note_work(&work);
        done.tried = self.tried.take();
        done.locks = LockUse { collection_count: work.transactions, ..self.locks.take() };
        if let Some(stages) = self.stages.take() {
            done.stages = Some(stages);
        }
    }
}

impl<'c> Context<'c> {
    /// Takes the ticket that the request needs, if it needs one. May wait.
    pub(crate) fn take_ticket(&mut self) -> Result<()> {
        if let Some(pool) = self.pool {
            let (op, deadline) = (self.op, self.deadline);
            let watch = Watch::new(op, deadline);
            let holders =
                |visit: &mut dyn FnMut(&Held)| self.server.clients.ops.each(|op| visit(&op.held));
            let ticket = pool.take(&|| watch.check(), &|since| op.set_queued(since), &holders)?;
            self.ticket = Some(ticket.held_by(&op.held));
        }
        Ok(())
    }

    /// The caller's privileges, for commands that check them themselves.
    pub(crate) fn asking(&self) -> Asking<'_> {
        Asking::new(self.connection)
    }

    /// The store handle to use: that of the transaction or snapshot if the request runs in one.
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.bound.as_ref().unwrap_or(&self.connection.store)
    }

    /// The request's write concern, or the default.
    pub(crate) fn write_concern<'a>(&self, request: &Request<'a>) -> WriteConcern<'a> {
        request.generic.write_concern.unwrap_or_else(|| self.server.default_write_concern())
    }

    /// Waits while the server is locked against writes (`fsync`). The command may write until it drops the returned
    /// guard. A command must call this only once: a second call could wait for a lock that waits for the first guard.
    ///
    /// # Errors
    /// 371 while user writes are blocked and `db` holds user data.
    pub(crate) fn begin_write(&self, db: &str) -> Result<Writing<'c>> {
        let server: &'c Server = self.server;
        self.check_write_block(db)?;
        let lock = &server.upkeep.fsync;
        loop {
            if let Some(writing) = lock.begin_write(self.writer) {
                self.effects.lock();
                self.op.note_lock();
                return Ok(writing);
            }
            self.wait_for_lock()?;
        }
    }

    /// Waits while the server is locked against writes. The wait counts, also one that fails.
    pub(crate) fn wait_for_lock(&self) -> Result<()> {
        let lock = &self.server.upkeep.fsync;
        if !lock.is_stopped(self.writer) {
            return Ok(());
        }
        let pool = self.pool.unwrap_or(&self.server.clients.tickets.write);
        let _blocked = pool.block(self.ticket.is_some());
        let since = clock::now();
        self.op.set_waiting_for_lock(Some((LockMode::Intent, since)));
        let waited = lock.wait(self.writer, &|| self.check());
        self.op.set_waiting_for_lock(None);
        let micros = clock::micros_since(since);
        self.effects.lock_wait(micros);
        self.op.note_lock_wait(micros);
        waited
    }

    /// Lets a lock (`fsync`) be taken in the middle of a long write, and waits for its release. For commands that have
    /// begun to write, at moments when they hold nothing.
    ///
    /// # Errors
    /// Those of [`Context::check`].
    pub(crate) fn pause_write(&self) -> Result<()> {
        self.watch().between_groups()
    }

    /// Refuses a write to `db` while user writes are blocked (371). Without authentication no client may bypass the
    /// block.
    pub(crate) fn check_write_block(&self, db: &str) -> Result<()> {
        if !self.server.settings.write_block.covers(db) || self.server.config.restores {
            return Ok(());
        }
        let bypasses = self.server.auth.is_enabled()
            && self.asking().on_cluster(Action::BypassWriteBlockingMode);
        match bypasses {
            true => Ok(()),
            false => bail!(Code::USER_WRITES_BLOCKED, "User writes blocked"),
        }
    }

    /// Runs a store transaction and adds its work to the request's statistics.
    pub(crate) fn write<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        let (mut attempts, mut keys) = (0_u64, KeysWritten::default());
        let done = self.store().write(options, &mut |txn| {
            attempts += 1;
            let done = f(txn);
            keys = txn.keys_written();
            done
        });
        let keys = if done.is_ok() { keys } else { KeysWritten::default() };
        let again = attempts.saturating_sub(1);
        self.effects.add(&Work {
            keys_inserted: keys.inserted,
            keys_deleted: keys.deleted,
            write_conflicts: again,
            yields: again,
            transactions: attempts,
            ..Work::default()
        });
        done.map(|written| written.value)
    }

    /// Counts statements that are tried: inserts, updates or deletes.
    pub(crate) fn count_tried(&self, kind: OpKind, count: u64) {
        let ops = &self.server.metrics.ops;
        let mut tried = self.effects.tried.get();
        let (counter, own) = match kind {
            OpKind::Insert => (&ops.insert, &mut tried.inserts),
            OpKind::Update => (&ops.update, &mut tried.updates),
            OpKind::Delete => (&ops.delete, &mut tried.deletes),
            OpKind::Query | OpKind::GetMore | OpKind::Command => return,
        };
        counter.add(count);
        *own += count;
        self.effects.tried.set(tried);
    }

    /// The part of the request that query statistics record, up to now.
    pub(crate) fn observed(&self) -> Observed {
        self.done.observed(clock::micros_since(self.started), self.op.queued_micros())
    }

    /// Returns true if the request is bound to a transaction.
    pub(crate) fn in_transaction(&self) -> bool {
        self.bound.is_some()
    }

    /// The interrupt check: fails if the operation was killed or its time limit has passed.
    pub(crate) fn check(&self) -> Result<()> {
        self.watch().check()
    }

    /// Cancels the command when its client disconnects, for commands whose result only that client can use. Dispatch
    /// does this for every read; a write takes effect regardless of the client.
    pub(crate) fn end_with_client(&self) {
        self.op.watch_peer(true, self.started);
    }

    /// The interrupt check, for long work.
    pub(crate) fn watch(&self) -> Watch<'c> {
        let server: &'c Server = self.server;
        Watch { op: self.op, deadline: self.deadline, server: Some(server) }
    }

    /// The server's properties that expressions can read: times, ids, the caller's roles.
    fn system(&self) -> System {
        let login = self.connection.login.as_ref();
        System {
            cluster_time: self.server.cluster_clock().map(ClusterClock::cluster),
            user_roles: login.map(|login| login.user.role_list.clone()),
            clock: Some(clock::wall_ms),
            ids: Some(self.server.identity.oids.clone()),
            seed: self.server.draw_seed(),
        }
    }

    /// The environment of a query of this request.
    pub(crate) fn env<'w>(&self, watch: &'w dyn nagi_query::Interrupt) -> nagi_query::Env<'w> {
        const ROW: usize = params::position("notablescan");
        let scans_refused = self.server.settings.params.number(ROW) != 0;
        nagi_query::Env::new(watch, clock::wall_ms())
            .with_system(self.system())
            .with_scans_refused(scans_refused)
    }
}

/// The interrupt check of an operation: it fails if the operation was killed, timed out or lost its client.
pub(crate) struct Watch<'c> {
    pub(crate) op: &'c Arc<Op>,
    pub(crate) deadline: Option<Instant>,
    /// The server whose JavaScript engines and parallel scan workers the request may use; `None` for background work.
    pub(crate) server: Option<&'c Server>,
}

impl<'c> Watch<'c> {
    /// For background work, which has no request.
    pub(crate) fn new(op: &'c Arc<Op>, deadline: Option<Instant>) -> Watch<'c> {
        Watch { op, deadline, server: None }
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operation {}", self.op.id())
    }
}

impl nagi_query::Interrupt for Watch<'_> {
    fn check(&self) -> Result<()> {
        check(self.op, self.deadline)
    }

    fn scripts(&self) -> Option<&dyn Scripts> {
        self.server.is_some_and(|server| server.engines.is_some()).then_some(self as &dyn Scripts)
    }

    fn planned(&self, summary: &dyn Fn(&mut String)) {
        self.op.put_plan_summary(summary);
    }

    fn examined(&self, keys: u64, docs: u64) {
        self.op.add_examined(keys, docs);
    }

    fn yielded(&self, conflict: bool) {
        self.op.add_yield(conflict);
    }

    fn between_groups(&self) -> Result<()> {
        let Some(lock) = self.server.map(|server| &server.upkeep.fsync) else { return Ok(()) };
        if !lock.is_stopped(Writer::New) {
            return Ok(());
        }
        self.op.set_waiting_for_lock(Some((LockMode::Intent, clock::now())));
        let paused = lock.pause(&|| self.check());
        self.op.set_waiting_for_lock(None);
        paused
    }

    fn wants_stages(&self) -> bool {
        self.op.is_profiled()
    }

    fn records_ahead_max(&self) -> usize {
        self.server.map_or(nagi_query::limits::RECORDS_AHEAD_MAX, Server::records_ahead_max)
    }

    fn begin_help(&self) -> bool {
        let helped = self.server.filter(|server| server.helps_scans());
        helped.is_some_and(|server| server.clients.workers.begin(&server.clients.tickets))
    }

    fn may_help(&self) -> bool {
        self.server.is_some_and(|server| server.clients.workers.may_go_on(&server.clients.tickets))
    }

    fn end_help(&self) {
        if let Some(server) = self.server {
            server.clients.workers.end();
        }
    }
}

/// Fails if the operation was killed, its deadline has passed or its client has disconnected.
///
/// Costs a few loads and, with a deadline, a clock read. It also gives other threads a turn if the request has run for
/// long ([`timeslice`]).
pub(crate) fn check(op: &Op, deadline: Option<Instant>) -> Result<()> {
    op.check()?;
    timeslice::look();
    match deadline {
        Some(deadline) if clock::now() >= deadline => Err(interruption(Code::MAX_TIME_MS_EXPIRED)),
        _ => op.check_peer(),
    }
}

/// Imports for the files of commands.
pub(crate) mod prelude {
    pub(crate) use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};
    pub(crate) use nagi_error::{Code, Error, Result, bail, err};

    pub(crate) use crate::args::{
        self, Below, Docs, FromArg, Int, Long, Name, NonNegative, Positive, StrictBool, StrictName,
        Switch, Truncated, Truthy, Within, args,
    };
    pub(crate) use crate::auth::Action;
    pub(crate) use crate::core::access::{Access, Asking};
    pub(crate) use crate::core::command::{Command, Context};
    pub(crate) use crate::metrics::operators::Holds;
    pub(crate) use crate::metrics::{LatencyKind, OpKind};
    pub(crate) use crate::printable::Secret;
    pub(crate) use crate::request::{Facts, Request, Servers};
}
