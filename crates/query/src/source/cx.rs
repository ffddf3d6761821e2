//! The context of a running source: reader, variables, time, and interrupt checks.

use std::{cell::Cell, sync::Arc};

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_budget::meter;
use nagi_error::{Code, Error, Result, err};
use nagi_lang::{
    expr::{Eval, Metadata, Pace, System, Vars, memory::check_size},
    filter::MatchCx,
    script::Scripts,
};
use nagi_store::{Reader, Store};

use super::Source;
use crate::{access::QuerySettings, limits::RECORDS_AHEAD_MAX, source::work::Noted};

/// Number of entries that leaves examine between two interrupt checks.
const TICKS_PER_POLL: u64 = 64;
/// Bytes of a document that count as one more step, so that a check happens at least every quarter of a megabyte.
const BYTES_PER_STEP: u64 = 4096;
/// Limit of documents that stages build from several values, each of which has its own limit.
const DOCUMENT_BYTES_MAX: usize = 1 << 30;
/// Bytes that an arena keeps between two documents.
const ARENA_BYTES_KEPT: usize = 256 << 10;
/// For a larger document memory is requested in advance, including the copies made by the sources above: a buffer
/// that has grown to twice its length, or two exact copies.
const LARGE_BYTES: usize = 256 << 10;
const LARGE_COPIES: usize = 2;
/// Copies of a document that is being changed, including those of the engine.
pub const CHANGE_COPIES: usize = 5;
/// Those of them that the store and the engine make: the record, what is staged, and the batch of the commit.
const STORE_COPIES: usize = 3;

/// The connection to the running operation: killed, deadline, shutdown; also its observers and helpers.
pub trait Interrupt: Sync {
    /// Returns an error (11601, 50, ...) if the operation is cancelled.
    fn check(&self) -> Result<()>;

    /// The engine for JavaScript functions of the operation; none if it is disabled.
    fn scripts(&self) -> Option<&dyn Scripts> {
        None
    }

    /// Called when the plan of the request was chosen. `summary` appends the plan summary of the log.
    fn planned(&self, _summary: &dyn Fn(&mut String)) {}

    /// Called at every check: more index keys and documents were examined. For observers of the running operation.
    fn examined(&self, _keys: u64, _docs: u64) {}

    /// Called when the operation released its snapshot or transaction; `conflict` if it is retried after a write
    /// conflict.
    fn yielded(&self, _conflict: bool) {}

    /// Called by a statement that changes many documents before each transaction of its own: it holds nothing, so it
    /// may be made to wait here.
    ///
    /// # Errors
    /// Those of [`Interrupt::check`].
    fn between_groups(&self) -> Result<()> {
        Ok(())
    }

    /// True if the stages that run are to be described afterwards, for the profiler.
    fn wants_stages(&self) -> bool {
        false
    }

    /// Limit of records that may be read ahead at once; 1: each is read when it is requested.
    fn records_ahead_max(&self) -> usize {
        RECORDS_AHEAD_MAX
    }

    /// Returns true if a worker thread may read for the operation, because a core is free. Each true is followed by
    /// a call of `end_help`.
    fn begin_help(&self) -> bool {
        false
    }

    /// True if the worker may continue: no other request needs its core.
    fn may_help(&self) -> bool {
        true
    }

    /// The worker has finished.
    fn end_help(&self) {}
}

/// Is never cancelled: for tests and internal work.
impl Interrupt for () {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The constants of a whole request: interrupt, time, and the count of work done.
pub struct Env<'c> {
    interrupt: &'c dyn Interrupt,
    now_ms: i64,
    spent: Cell<u64>,
    /// Amount of work at which the next check of interrupt and budget is due.
    due: Cell<u64>,
    /// Steps that are no entries, since the last check.
    steps: Cell<u64>,
    budget: Cell<u64>,
    /// Index keys and documents examined since the last check.
    keys: Cell<u64>,
    docs: Cell<u64>,
    explaining: Cell<bool>,
    /// A stage of the request's plan runs a statement of its own.
    nested: Cell<bool>,
    system: System,
    settings: Option<Arc<QuerySettings>>,
    noted: Noted,
    scans_refused: bool,
}

impl<'c> Env<'c> {
    /// `now_ms` is `$$NOW`, milliseconds since 1970.
    pub fn new(interrupt: &'c dyn Interrupt, now_ms: i64) -> Env<'c> {
        Env {
            interrupt,
            now_ms,
            spent: Cell::new(0),
            due: Cell::new(TICKS_PER_POLL),
            steps: Cell::new(0),
            budget: Cell::new(u64::MAX),
            keys: Cell::new(0),
            docs: Cell::new(0),
            explaining: Cell::new(false),
            nested: Cell::new(false),
            system: System::default(),
            settings: None,
            noted: Noted::default(),
            scans_refused: false,
        }
    }

    /// Adds the server's values for expressions.
    #[must_use]
    pub fn with_system(mut self, system: System) -> Env<'c> {
        self.system = system;
        self
    }

    /// The server's values for expressions.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Sets the settings of the query's shape.
    #[must_use]
    pub fn with_settings(mut self, settings: Option<Arc<QuerySettings>>) -> Env<'c> {
        self.settings = settings;
        self
    }

    /// Refuses queries that need a collection scan (`notablescan`).
    #[must_use]
    pub fn with_scans_refused(mut self, refused: bool) -> Env<'c> {
        self.scans_refused = refused;
        self
    }

    /// True if queries that need a collection scan are refused.
    pub(crate) fn refuses_scans(&self) -> bool {
        self.scans_refused
    }

    /// The settings of the query's shape.
    pub fn settings(&self) -> Option<&Arc<QuerySettings>> {
        self.settings.as_ref()
    }

    pub(crate) fn noted(&self) -> &Noted {
        &self.noted
    }

    /// The time of the request, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Marks the request as an explain: the plan cache is read, but not used.
    pub(crate) fn explain(&self) {
        self.explaining.set(true);
    }

    pub(crate) fn is_explaining(&self) -> bool {
        self.explaining.get()
    }

    /// Runs a statement inside of the request's plan: its own plan is not announced as that of the request.
    pub(crate) fn nested<T>(&self, statement: impl FnOnce() -> T) -> T {
        let before = self.nested.replace(true);
        let done = statement();
        self.nested.set(before);
        done
    }

    pub(crate) fn is_nested(&self) -> bool {
        self.nested.get()
    }

    /// Counts a step that examines no entry: a document that a stage holds, or an element of an array. Fails if the
    /// operation is cancelled.
    #[inline]
    pub(crate) fn pass(&self) -> Result<()> {
        self.steps(1)
    }

    #[inline]
    fn steps(&self, count: u64) -> Result<()> {
        self.check_memory(0)?;
        let steps = self.steps.get() + count;
        self.steps.set(steps);
        if steps < TICKS_PER_POLL {
            return Ok(());
        }
        self.steps.set(0);
        meter::ease();
        self.tell_examined();
        self.interrupt.check()
    }

    /// Reports the examined keys and documents since the last report to observers of the operation.
    fn tell_examined(&self) {
        let (keys, docs) = (self.keys.take(), self.docs.take());
        if keys + docs > 0 {
            self.interrupt.examined(keys, docs);
        }
    }

    /// The interrupt of the operation.
    pub fn interrupt(&self) -> &'c dyn Interrupt {
        self.interrupt
    }

    /// The engine for JavaScript functions.
    pub fn scripts(&self) -> Option<&'c dyn Scripts> {
        self.interrupt.scripts()
    }

    /// Entries examined so far.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Sets a budget of `entries` more entries. After them `tick` fails and `is_exhausted` is true.
    pub(crate) fn set_budget(&self, entries: Option<u64>) {
        let end = entries.map_or(u64::MAX, |n| self.spent.get().saturating_add(n));
        self.budget.set(end);
        self.due.set(end.min(self.spent.get() + TICKS_PER_POLL));
    }

    /// Runs `work`, which cannot continue later if the budget stops it. What it counts is not charged to the budget.
    pub(crate) fn without_budget<R>(&self, work: impl FnOnce() -> R) -> R {
        let (budget, before) = (self.budget.replace(u64::MAX), self.spent.get());
        let result = work();
        self.budget.set(budget.saturating_add(self.spent.get() - before));
        self.due.set(self.due.get().min(self.budget.get()));
        result
    }

    /// Returns true if the budget is used up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.spent.get() >= self.budget.get()
    }

    #[inline]
    fn tick(&self) -> Result<()> {
        let spent = self.spent.get() + 1;
        self.spent.set(spent);
        if spent >= self.due.get() {
            self.poll()?;
        }
        self.check_memory(0)
    }

    /// Ensures that the request may hold `more` bytes in addition to its present memory; waits if there is no
    /// capacity.
    ///
    /// # Errors
    /// 146 if there is no memory.
    #[inline]
    pub(crate) fn check_memory(&self, more: usize) -> Result<()> {
        match meter::has(more) {
            true => Ok(()),
            false => self.wait_for_memory(more),
        }
    }

    #[cold]
    fn wait_for_memory(&self, more: usize) -> Result<()> {
        let mut stopped = Ok(());
        let mut go_on = || {
            stopped = self.interrupt.check();
            stopped.is_ok()
        };
        if meter::fits_in_time(more, Some(&mut go_on)) {
            return Ok(());
        }
        stopped?;
        Err(out_of_memory())
    }

    /// Requests memory for the copies made by a change of a document of this length: the document read, the result,
    /// the record, what is staged, and the batch of the commit. A change that had to wait for more of them when it
    /// holds the first ones could wait for another one in the same state, and one of both would fail.
    pub(crate) fn changing(&self, len: usize) -> Result<()> {
        match len > LARGE_BYTES {
            true => self.check_memory(CHANGE_COPIES * len),
            false => Ok(()),
        }
    }

    /// Requests memory for the copies that are made when a document of this length is stored, which exists.
    pub(crate) fn storing(&self, len: usize) -> Result<()> {
        match len > LARGE_BYTES {
            true => self.check_memory(STORE_COPIES * len),
            false => Ok(()),
        }
    }

    #[cold]
    fn poll(&self) -> Result<()> {
        let spent = self.spent.get();
        self.due.set(self.budget.get().min(spent + TICKS_PER_POLL));
        meter::ease();
        if self.is_exhausted() {
            return Err(Error::bug("the trial run of this plan has used its budget"));
        }
        self.tell_examined();
        self.interrupt.check()
    }
}

impl Pace for Env<'_> {
    fn step(&self) -> Result<()> {
        self.pass()
    }

    fn check_memory(&self, more: usize) -> Result<()> {
        Env::check_memory(self, more)
    }
}

impl std::fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a request that spent {}", self.spent.get())
    }
}

/// The context of a call of `advance`.
pub struct Cx<'c> {
    /// The store, for stages that read other collections.
    pub store: &'c Store,
    /// The snapshot that this call reads.
    pub reader: Reader<'c>,
    /// Values of the variables in scope.
    pub vars: &'c Vars<'c>,
    /// The environment of the request.
    pub env: &'c Env<'c>,
}

impl<'c> Cx<'c> {
    /// Counts an entry that a leaf examined. Fails if the operation is cancelled.
    pub fn tick(&self) -> Result<()> {
        self.env.tick()
    }

    /// Counts an examined document.
    #[inline]
    pub(crate) fn examined_doc(&self) {
        self.env.docs.set(self.env.docs.get() + 1);
    }

    /// Counts examined index keys.
    #[inline]
    pub(crate) fn examined_keys(&self, count: u64) {
        self.env.keys.set(self.env.keys.get() + count);
    }

    /// Counts a document that a stage held and passes on. Fails if the operation is cancelled. For stages that read
    /// all their input first, because no leaf below them counts any more.
    pub fn pass(&self) -> Result<()> {
        self.env.pass()
    }

    /// Counts the bytes of an entry that a leaf examined, in addition to `tick`, because a filter or an expression
    /// may read all of a large document. Fails if the operation is cancelled.
    #[inline]
    pub(crate) fn weigh(&self, doc: &[u8]) -> Result<()> {
        match doc.len() as u64 / BYTES_PER_STEP {
            0 => Ok(()),
            steps => {
                if doc.len() > LARGE_BYTES {
                    self.env.check_memory(LARGE_COPIES * doc.len())?;
                }
                self.env.steps(steps)
            }
        }
    }

    /// Must be called in each iteration of a loop that writes to a buffer, with the buffer's length. A growing
    /// buffer is copied to one of twice its length.
    ///
    /// # Errors
    /// 146 if there is no memory for that.
    #[inline]
    pub(crate) fn writing(&self, len: usize) -> Result<()> {
        match len > LARGE_BYTES {
            true => self.env.check_memory(2 * len),
            false => Ok(()),
        }
    }

    /// Like [`Cx::writing`], for a document that has, or will have, this length.
    ///
    /// # Errors
    /// 10334 for a length far below 2 GiB, the limit of BSON.
    #[inline]
    pub(crate) fn writing_document(&self, len: usize) -> Result<()> {
        self.writing(len)?;
        if len > DOCUMENT_BYTES_MAX { check_size(len) } else { Ok(()) }
    }

    /// The environment in which expressions evaluate, with `root` as the document and results in `arena`.
    pub fn eval<'a>(&self, root: Doc<'a>, arena: &'a Bump) -> Eval<'a>
    where
        'c: 'a,
    {
        Eval::new(root, self.vars, arena, self.env.now_ms)
    }

    /// The environment in which expressions evaluate over the current document of `source`, with its metadata.
    pub(crate) fn eval_current<'a>(&self, source: &'a dyn Source, arena: &'a Bump) -> Eval<'a>
    where
        'c: 'a,
    {
        let mut eval = self.eval(source.doc(), arena);
        eval.meta = read_meta(source.meta(), arena);
        eval
    }

    /// The environment in which filters match the current document of `source`.
    pub(crate) fn matching_current<'a>(
        &self,
        source: &'a dyn Source,
        arena: &'a Bump,
    ) -> MatchCx<'a>
    where
        'c: 'a,
    {
        let mut cx = self.matching(arena);
        cx.meta = read_meta(source.meta(), arena);
        cx
    }

    /// The environment in which filters match.
    pub fn matching<'a>(&self, arena: &'a Bump) -> MatchCx<'a>
    where
        'c: 'a,
    {
        MatchCx::new(self.vars, arena, self.env.now_ms)
    }
}

fn out_of_memory() -> Error {
    err!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: the operation needs more memory than the server has left for expressions and \
         intermediate results"
    )
}

/// Ensures that the request of this thread may hold `more` bytes in addition to its present memory; does not wait.
///
/// # Errors
/// 146 if there is no memory.
pub(crate) fn check_memory(more: usize) -> Result<()> {
    if meter::fits(more) { Ok(()) } else { Err(out_of_memory()) }
}

/// Empties an arena. The memory of a large document is released, because a parked cursor would keep it.
#[inline]
pub(crate) fn renew(arena: &mut Bump) {
    match arena.allocated_bytes() > ARENA_BYTES_KEPT {
        true => *arena = Bump::new(),
        false => arena.reset(),
    }
}

/// Parses metadata into the arena; none for an empty document.
pub(crate) fn read_meta<'a>(meta: Doc<'a>, arena: &'a Bump) -> Option<&'a Metadata<'a>> {
    if meta.is_empty() {
        return None;
    }
    Some(arena.alloc(Metadata::read(meta)))
}
