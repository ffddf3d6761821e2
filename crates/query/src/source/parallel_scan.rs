//! Parallel scan: all documents of a source are gathered by two threads if a core is free.
//!
//!   |------------------ the source ------------------|
//!   |-- this thread: `into` --|-- worker: `beside` ---|      then `into.join(beside)`
//!
//! It is used only by consumers that read all their input before they yield anything. The worker's part comes after
//! the part of this thread, so the result, including the order, is the same as that of one thread.
//!
//! - The worker reads the same snapshot. A transaction has no snapshot that can be shared, so it gets no worker.
//! - The worker polls the same interrupt, and stops at once when this thread fails.
//! - When other requests need its core, it hands over what it has gathered, and this thread reads the rest.
//! - If the worker fails, its result is discarded and this thread reads its part. So errors occur in the order of
//!   the documents, and an expression that only the request's own thread can evaluate (a JavaScript function) costs
//!   only the attempt.
//!
//! Why: docs/decisions/037.

use std::sync::atomic::{AtomicBool, Ordering};

use nagi_bson::Value;
use nagi_budget::{Metering, meter};
use nagi_error::{Code, Error, Result, err};
use nagi_lang::expr::{System, Vars};
use nagi_lang::script::Scripts;
use nagi_store::{SharedReader, Store};

use super::{Absorbed, Cx, Env, Interrupt, Source, workers};

/// Entries between two checks if the worker may continue: a few milliseconds.
const SLICE: u64 = 4096;
/// Documents that a source yields before it is split late: milliseconds.
const LATE_DOCS: u64 = 3000;

/// Gathers the documents of a source one by one.
pub(crate) trait Gather: Send + Sized {
    /// Takes the current document of `input`.
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()>;

    /// Creates an empty one for the later documents. Until the two are joined, they share the memory limit of one.
    /// None if the work cannot be shared.
    fn beside(&mut self, cx: &mut Cx<'_>) -> Result<Option<Self>>;

    /// Called by each thread when it has gathered its part, for work that is better done by both than after the join.
    /// More documents may follow, if the other thread gives up.
    fn complete(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    /// Appends what `later` has gathered.
    fn join(&mut self, later: Self, cx: &mut Cx<'_>) -> Result<()>;

    /// Called when there is no other one any more.
    fn alone(&mut self) {}

    /// How many times as long as usual it takes for a document.
    fn weight(&self) -> u64 {
        1
    }

    /// True if it takes no more documents now.
    fn is_full(&self) -> bool {
        false
    }
}

/// Reads `input` to its end. Returns the sources that read other parts of it, for their statistics.
pub(crate) fn drain<G: Gather>(
    input: &mut dyn Source,
    into: &mut G,
    cx: &mut Cx<'_>,
) -> Result<Option<Box<dyn Source>>> {
    if input.splits_late() && !some(input, into, LATE_DOCS / into.weight(), cx)? {
        return Ok(None);
    }
    let Some(shared) = cx.reader.share() else { return all(input, into, cx).map(|()| None) };
    if !cx.env.interrupt().begin_help() {
        return all(input, into, cx).map(|()| None);
    }
    let lent = Lent(cx.env.interrupt());
    let Some((later, beside)) = divide(input, into, cx)? else {
        drop(lent);
        return all(input, into, cx).map(|()| None);
    };
    let own = |cx: &mut Cx<'_>| {
        all(input, into, cx)?;
        into.complete(cx).map(|()| true)
    };
    let outcome = both(own, (later, beside), shared, cx);
    into.alone();
    drop(lent);
    let (mut later, beside, ended) = outcome?;
    if ended == Ended::Failed {
        drop(beside);
        let again = later.afresh();
        later = again.ok_or_else(|| Error::bug("a divided source cannot be read again"))?;
    } else {
        into.join(beside, cx)?;
    }
    if ended != Ended::Done {
        all(&mut *later, into, cx)?;
    }
    Ok(Some(later))
}

/// Gathers what `input` has at present, for [`Source::absorb`].
pub(crate) fn absorb<G: Gather>(
    input: &mut dyn Source,
    into: &mut G,
    cx: &mut Cx<'_>,
) -> Result<Absorbed> {
    let absorbed = input.absorb(cx)?;
    if absorbed != Absorbed::Yields {
        return Ok(absorbed);
    }
    all(input, into, cx)?;
    Ok(Absorbed::Keeps)
}

/// Releases the worker's core when dropped.
pub(super) struct Lent<'c>(pub(super) &'c dyn Interrupt);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.end_help();
    }
}

pub(super) type Later<G> = (Box<dyn Source>, G);

/// The source for the worker, and the place where it gathers.
pub(super) fn divide<G: Gather>(
    input: &mut dyn Source,
    into: &mut G,
    cx: &mut Cx<'_>,
) -> Result<Option<Later<G>>> {
    let Some(beside) = into.beside(cx)? else { return Ok(None) };
    match input.split(cx)? {
        Some(later) => Ok(Some((later, beside))),
        None => {
            into.alone();
            Ok(None)
        }
    }
}

/// Gathers at most so many documents, and none once it is full. Returns false at the end.
fn some<G: Gather>(
    input: &mut dyn Source,
    into: &mut G,
    max: u64,
    cx: &mut Cx<'_>,
) -> Result<bool> {
    for _ in 0..max {
        if into.is_full() {
            break;
        }
        if !input.advance(cx)? {
            return Ok(false);
        }
        into.take(input, cx)?;
    }
    Ok(true)
}

pub(super) fn all<G: Gather>(input: &mut dyn Source, into: &mut G, cx: &mut Cx<'_>) -> Result<()> {
    while input.advance(cx)? {
        into.take(input, cx)?;
    }
    Ok(())
}

/// The outcome of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// It stopped early, or is full; its source has the rest.
    Retired,
    Failed,
}

/// Runs both threads. This one's work returns false if nothing of the worker's is needed, which then stops. Fails if
/// this one does.
pub(super) fn both<G: Gather>(
    work: impl FnOnce(&mut Cx<'_>) -> Result<bool>,
    (mut later, mut beside): Later<G>,
    shared: SharedReader<'_>,
    cx: &mut Cx<'_>,
) -> Result<(Box<dyn Source>, G, Ended)> {
    let called_off = AtomicBool::new(false);
    // Each worker has random numbers of its own, and this thread others from here on.
    let seed = cx.vars.seed.get();
    cx.vars.seed.set(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
    let job = Job {
        seed: seed.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15,
        store: cx.store,
        shared,
        lets: cx.vars.lets,
        system: cx.vars.system,
        now_ms: cx.env.now_ms(),
        interrupt: Called { inner: cx.env.interrupt(), off: &called_off },
    };
    let own = || {
        // Also on a panic; otherwise this thread would wait for the worker's whole part.
        let off = CallOff(&called_off);
        let own = work(cx);
        if matches!(own, Ok(true)) {
            std::mem::forget(off);
        }
        own
    };
    let (own, ended) = workers::beside(own, || job.run(&mut *later, &mut beside));
    // No thread could be started, so nothing was done.
    let ended = ended.unwrap_or(Ended::Retired);
    own.map(|_| (later, beside, ended))
}

struct CallOff<'o>(&'o AtomicBool);

impl Drop for CallOff<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The data of the request that the worker needs.
struct Job<'j> {
    store: &'j Store,
    shared: SharedReader<'j>,
    lets: &'j [Value<'j>],
    system: &'j System,
    now_ms: i64,
    seed: u64,
    interrupt: Called<'j>,
}

/// The request's interrupt, combined with the flag that the other thread has failed.
struct Called<'j> {
    inner: &'j dyn Interrupt,
    off: &'j AtomicBool,
}

impl Interrupt for Called<'_> {
    fn check(&self) -> Result<()> {
        if self.off.load(Ordering::Relaxed) {
            return Err(err!(Code::INTERRUPTED, "operation was interrupted"));
        }
        self.inner.check()
    }

    fn planned(&self, summary: &dyn Fn(&mut String)) {
        self.inner.planned(summary);
    }

    fn examined(&self, keys: u64, docs: u64) {
        self.inner.examined(keys, docs);
    }

    fn yielded(&self, conflict: bool) {
        self.inner.yielded(conflict);
    }

    fn wants_stages(&self) -> bool {
        self.inner.wants_stages()
    }

    /// A JavaScript engine belongs to one thread.
    fn scripts(&self) -> Option<&dyn Scripts> {
        None
    }
}

impl Job<'_> {
    fn run<G: Gather>(&self, later: &mut dyn Source, beside: &mut G) -> Ended {
        let _metering = Metering::begin(self.store.budget());
        let env = Env::new(&self.interrupt, self.now_ms).with_system(self.system.clone());
        let vars = Vars::with_system(self.lets, self.system).with_pace(&env);
        vars.seed.set(self.seed);
        let reader = self.shared.reader();
        let mut cx = Cx { store: self.store, reader, vars: &vars, env: &env };
        // An index scan does not continue after an error, so its slices end with documents that it yields.
        let slice = SLICE / beside.weight();
        let (entries, docs) = match later.splits_late() {
            true => (None, slice),
            false => (Some(slice), u64::MAX),
        };
        loop {
            env.set_budget(entries);
            let more = some(later, beside, docs, &mut cx);
            match more {
                Ok(_) if meter::check_refused() => return Ended::Failed,
                Ok(false) => {
                    env.set_budget(None);
                    let completed = beside.complete(&mut cx);
                    return if completed.is_ok() { Ended::Done } else { Ended::Failed };
                }
                Err(_) if !env.is_exhausted() => return Ended::Failed,
                Ok(true) if beside.is_full() => return Ended::Retired,
                Ok(true) | Err(_) if !self.interrupt.inner.may_help() => return Ended::Retired,
                Ok(true) | Err(_) => {}
            }
        }
    }
}
