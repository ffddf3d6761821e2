//! What a source needs from outside while it runs: a reader, variables, time, and whether to stop.

use std::{cell::Cell, sync::Arc};

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_budget::meter;
use nagi_error::{Code, Error, Result, err};
use nagi_lang::{
    expr::{Eval, Metadata, Pace, System, Vars, room::check_size},
    filter::MatchCx,
    script::Scripts,
};
use nagi_store::{Reader, Store};

use super::Source;
use crate::{access::QuerySettings, limits::RECORDS_AHEAD_MAX, source::work::Noted};

/// How many entries leaves look at between two polls at the interrupt.
const TICKS_PER_POLL: u64 = 64;
/// Bytes of a document that count as one more step: a look at the latest every quarter of a megabyte.
const BYTES_PER_STEP: u64 = 4096;
/// Largest document that stages make of several values, each of which has a bound of its own.
const DOCUMENT_BYTES_MAX: usize = 1 << 30;
/// What an arena keeps between two documents.
const ARENA_BYTES_KEPT: usize = 256 << 10;
/// A document beyond this is asked room for, with the copies that the sources above make of it: a buffer that
/// has grown to twice its length, or two that have not.
const LARGE_BYTES: usize = 256 << 10;
const LARGE_COPIES: usize = 2;
/// Copies of a document that is being changed, with those of the engine.
const CHANGE_COPIES: usize = 5;

/// Whether the operation shall continue: killed, past its deadline, server stopping.
pub trait Interrupt: Sync {
    /// An error (11601, 50, ...) when the operation shall stop.
    fn check(&self) -> Result<()>;

    /// Who calls functions in JavaScript for the operation; none where that is switched off.
    fn scripts(&self) -> Option<&dyn Scripts> {
        None
    }

    /// The plan of the request was chosen; `summary` appends what the log calls it.
    fn planned(&self, _summary: &dyn Fn(&mut String)) {}

    /// So many more index keys and documents were examined, for who watches the operation run. Called at every poll.
    fn examined(&self, _keys: u64, _docs: u64) {}

    /// The operation let go of its snapshot or transaction; `conflict` if another write made it begin again.
    fn yielded(&self, _conflict: bool) {}

    /// Whether the stages that run shall be described afterwards, for the profiler.
    fn wants_stages(&self) -> bool {
        false
    }

    /// How many records may be read at once before they are requested; 1: each when it is requested.
    fn records_ahead_max(&self) -> usize {
        RECORDS_AHEAD_MAX
    }

    /// Whether another thread may read for the operation: a core is free. Each yes is given back by
    /// `end_help`.
    fn begin_help(&self) -> bool {
        false
    }

    /// Whether the other thread may continue: no one else wants its core.
    fn may_help(&self) -> bool {
        true
    }

    /// The other thread is done.
    fn end_help(&self) {}
}

/// Never stops: tests and internal work.
impl Interrupt for () {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// What stays the same for a whole request: interruption, time, and a count of the work done.
pub struct Env<'c> {
    interrupt: &'c dyn Interrupt,
    now_ms: i64,
    spent: Cell<u64>,
    /// Work at which the next look at interrupt and budget is due.
    due: Cell<u64>,
    /// Steps that are no entries, since the last look.
    steps: Cell<u64>,
    budget: Cell<u64>,
    /// Index keys and documents examined since the last poll.
    keys: Cell<u64>,
    docs: Cell<u64>,
    explaining: Cell<bool>,
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
            system: System::default(),
            settings: None,
            noted: Noted::default(),
            scans_refused: false,
        }
    }

    /// The same with what the server gives to expressions.
    #[must_use]
    pub fn with_system(mut self, system: System) -> Env<'c> {
        self.system = system;
        self
    }

    /// What the server gives to expressions.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The same for a query of a shape with settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Option<Arc<QuerySettings>>) -> Env<'c> {
        self.settings = settings;
        self
    }

    /// The same where queries that need a collection scan are refused (`notablescan`).
    #[must_use]
    pub fn with_scans_refused(mut self, refused: bool) -> Env<'c> {
        self.scans_refused = refused;
        self
    }

    /// Whether queries that need a collection scan are refused.
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

    /// Time of the request.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Plans are explained: the plan cache is looked at, not used.
    pub(crate) fn explain(&self) {
        self.explaining.set(true);
    }

    pub(crate) fn is_explaining(&self) -> bool {
        self.explaining.get()
    }

    /// Counts a step that looks at no entry: a document that a stage held, an element of an array.
    /// Fails when the operation shall stop.
    #[inline]
    pub(crate) fn pass(&self) -> Result<()> {
        self.steps(1)
    }

    #[inline]
    fn steps(&self, count: u64) -> Result<()> {
        self.room(0)?;
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

    /// Tells who watches the operation what was examined since the last time.
    fn tell_examined(&self) {
        let (keys, docs) = (self.keys.take(), self.docs.take());
        if keys + docs > 0 {
            self.interrupt.examined(keys, docs);
        }
    }

    /// Whether to continue.
    pub fn interrupt(&self) -> &'c dyn Interrupt {
        self.interrupt
    }

    /// Who calls functions in JavaScript.
    pub fn scripts(&self) -> Option<&'c dyn Scripts> {
        self.interrupt.scripts()
    }

    /// Entries looked at so far.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Lets the next `entries` entries pass; then `tick` fails and `is_exhausted` is true.
    pub(crate) fn set_budget(&self, entries: Option<u64>) {
        let end = entries.map_or(u64::MAX, |n| self.spent.get().saturating_add(n));
        self.budget.set(end);
        self.due.set(end.min(self.spent.get() + TICKS_PER_POLL));
    }

    /// Whether the budget is used up.
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
        self.room(0)
    }

    /// Whether there is memory for `more` bytes beside what the request has; waits a moment if it has little.
    ///
    /// # Errors
    /// 146 if there is none.
    #[inline]
    pub(crate) fn room(&self, more: usize) -> Result<()> {
        match meter::has(more) {
            true => Ok(()),
            false => self.wait_for_room(more),
        }
    }

    #[cold]
    fn wait_for_room(&self, more: usize) -> Result<()> {
        let mut stopped = Ok(());
        let mut go_on = || {
            stopped = self.interrupt.check();
            stopped.is_ok()
        };
        if meter::fits_in_time(more, Some(&mut go_on)) {
            return Ok(());
        }
        stopped?;
        Err(no_room())
    }

    /// Asks for the copies that a change of a document of this length makes: what was read, the result, the
    /// record, the batch of the commit.
    pub(crate) fn changing(&self, len: usize) -> Result<()> {
        match len > LARGE_BYTES {
            true => self.room(CHANGE_COPIES * len),
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

    fn room(&self, more: usize) -> Result<()> {
        Env::room(self, more)
    }
}

impl std::fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a request that spent {}", self.spent.get())
    }
}

/// The context of a call of `advance`.
pub struct Cx<'c> {
    /// The database, for stages that read other collections.
    pub store: &'c Store,
    /// The state of it that this call reads.
    pub reader: Reader<'c>,
    /// Values of the variables in scope.
    pub vars: &'c Vars<'c>,
    /// The request.
    pub env: &'c Env<'c>,
}

impl<'c> Cx<'c> {
    /// Counts an entry that a leaf looked at; fails when the operation shall stop.
    pub fn tick(&self) -> Result<()> {
        self.env.tick()
    }

    /// Notes that a document was examined.
    #[inline]
    pub(crate) fn examined_doc(&self) {
        self.env.docs.set(self.env.docs.get() + 1);
    }

    /// Notes that index keys were examined.
    #[inline]
    pub(crate) fn examined_keys(&self, count: u64) {
        self.env.keys.set(self.env.keys.get() + count);
    }

    /// Counts a document that a stage held and now passes on; fails when the operation shall stop. For
    /// stages that read all their input first: nothing below them ticks any more.
    pub fn pass(&self) -> Result<()> {
        self.env.pass()
    }

    /// Counts the bytes of an entry that a leaf looked at, beside `tick`: a filter or an expression may read
    /// all of a large document. Fails when the operation shall stop.
    #[inline]
    pub(crate) fn weigh(&self, doc: &[u8]) -> Result<()> {
        match doc.len() as u64 / BYTES_PER_STEP {
            0 => Ok(()),
            steps => {
                if doc.len() > LARGE_BYTES {
                    self.env.room(LARGE_COPIES * doc.len())?;
                }
                self.env.steps(steps)
            }
        }
    }

    /// To be called in every turn of a loop that writes to a buffer that is so long by now: one that grows is
    /// copied to one of twice its length.
    ///
    /// # Errors
    /// 146 if there is no memory for that.
    #[inline]
    pub(crate) fn writing(&self, len: usize) -> Result<()> {
        match len > LARGE_BYTES {
            true => self.env.room(2 * len),
            false => Ok(()),
        }
    }

    /// The same for a document that is so long by now, or is going to be.
    ///
    /// # Errors
    /// 10334 far below 2 GiB, where lengths in BSON end.
    #[inline]
    pub(crate) fn writing_document(&self, len: usize) -> Result<()> {
        self.writing(len)?;
        if len > DOCUMENT_BYTES_MAX { check_size(len) } else { Ok(()) }
    }

    /// What expressions evaluate in: `root` as the document, results in `arena`.
    pub fn eval<'a>(&self, root: Doc<'a>, arena: &'a Bump) -> Eval<'a>
    where
        'c: 'a,
    {
        Eval::new(root, self.vars, arena, self.env.now_ms)
    }

    /// What expressions evaluate in over the current document of `source`, with its metadata.
    pub(crate) fn eval_current<'a>(&self, source: &'a dyn Source, arena: &'a Bump) -> Eval<'a>
    where
        'c: 'a,
    {
        let mut eval = self.eval(source.doc(), arena);
        eval.meta = read_meta(source.meta(), arena);
        eval
    }

    /// What filters match in, over the current document of `source`.
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

    /// What filters match in.
    pub fn matching<'a>(&self, arena: &'a Bump) -> MatchCx<'a>
    where
        'c: 'a,
    {
        MatchCx::new(self.vars, arena, self.env.now_ms)
    }
}

fn no_room() -> Error {
    err!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: the operation needs more memory than the server has left for expressions and \
         intermediate results"
    )
}

/// Whether there is memory for `more` bytes beside what the request of this thread has; does not wait.
///
/// # Errors
/// 146 if there is none.
pub(crate) fn room(more: usize) -> Result<()> {
    if meter::fits(more) { Ok(()) } else { Err(no_room()) }
}

/// Empties an arena. What a large document took is given back: a parked cursor would keep it.
#[inline]
pub(crate) fn renew(arena: &mut Bump) {
    match arena.allocated_bytes() > ARENA_BYTES_KEPT {
        true => *arena = Bump::new(),
        false => arena.reset(),
    }
}

/// Metadata in the arena; none of an empty document.
pub(crate) fn read_meta<'a>(meta: Doc<'a>, arena: &'a Bump) -> Option<&'a Metadata<'a>> {
    if meta.is_empty() {
        return None;
    }
    Some(arena.alloc(Metadata::read(meta)))
}
