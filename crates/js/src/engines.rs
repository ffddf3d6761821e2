//! All engines of a server: how many there may be, what each may hold, and which one a thread has.
//!
//! An engine cannot leave its thread, so the thread keeps the one of its running request. It is made
//! at the first call and dropped when the request ends ([`release`]).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use nagi_bson::{Doc, Value, ValueBuf};
use nagi_budget::Budget;
use nagi_error::Result;
use nagi_lang::script::{Emit, Function};
use parking_lot::{Condvar, Mutex};

use crate::engine::{Engine, none_free};
use crate::heap::Heap;
use crate::{Interrupt, Stored};

/// How long a request waits for another's engine to end.
const WAIT: Duration = Duration::from_secs(30);
/// Between two polls at the interrupt while waiting.
const NAP: Duration = Duration::from_millis(10);

/// The engines of a server.
pub struct Engines {
    budget: Arc<Budget>,
    /// Engines there may be at once.
    count_max: usize,
    running: Mutex<usize>,
    freed: Condvar,
    heap_bytes_max: AtomicUsize,
}

impl std::fmt::Debug for Engines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} engines", self.running.lock(), self.count_max)
    }
}

/// A place among the engines.
struct Place(Arc<Engines>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.freed.notify_one();
    }
}

/// The engine of a thread: dropped before its place is given back.
struct Held {
    request: u64,
    engine: Engine,
    _place: Place,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Drops the engine of this thread, if it has one: the request is over.
pub fn release() {
    let held = HELD.with(|held| held.borrow_mut().take());
    drop(held);
}

impl Engines {
    /// No engine yet. At most `count_max` at once, each with at most `heap_bytes_max` (0: what the
    /// budget has).
    pub fn new(budget: Arc<Budget>, count_max: usize, heap_bytes_max: usize) -> Arc<Engines> {
        Arc::new(Engines {
            budget,
            count_max,
            running: Mutex::new(0),
            freed: Condvar::new(),
            heap_bytes_max: AtomicUsize::new(heap_bytes_max),
        })
    }

    /// What each engine that is made from now on may hold; 0: what the budget has.
    pub fn set_heap_limit(&self, bytes: usize) {
        self.heap_bytes_max.store(bytes, Relaxed);
    }

    /// Engines that run now.
    pub fn running(&self) -> usize {
        *self.running.lock()
    }

    /// [`nagi_lang::script::Scripts::call`] for a request, whose number tells it from those before.
    pub fn call(
        self: &Arc<Engines>,
        request: u64,
        interrupt: &dyn Fn() -> Interrupt,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf> {
        self.with(request, interrupt, |engine| engine.call(function, this, args))
    }

    /// [`nagi_lang::script::Scripts::test`] for a request. What is `stored` is loaded once.
    pub fn test(
        self: &Arc<Engines>,
        request: u64,
        interrupt: &dyn Fn() -> Interrupt,
        stored: Stored<'_>,
        function: &Arc<Function>,
        doc: Doc<'_>,
    ) -> Result<bool> {
        self.with(request, interrupt, |engine| {
            engine.load(stored)?;
            engine.test(function, doc)
        })
    }

    /// [`nagi_lang::script::Scripts::map`] for a request. What is `stored` is loaded once, and is
    /// there for the functions of the request that come after, too.
    pub fn map(
        self: &Arc<Engines>,
        request: u64,
        interrupt: &dyn Fn() -> Interrupt,
        stored: Stored<'_>,
        function: &Arc<Function>,
        doc: Doc<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        self.with(request, interrupt, |engine| {
            engine.load(stored)?;
            engine.map(function, doc, emit)
        })
    }

    /// Runs something in the engine of this thread's request. The engine is away meanwhile: what runs
    /// inside it cannot come here again.
    fn with<T>(
        self: &Arc<Engines>,
        request: u64,
        interrupt: &dyn Fn() -> Interrupt,
        run: impl FnOnce(&mut Engine) -> Result<T>,
    ) -> Result<T> {
        let there = HELD.with(|held| held.borrow_mut().take());
        let mut held = match there {
            Some(held) if held.request == request => held,
            other => {
                drop(other);
                self.make(request, interrupt())?
            }
        };
        let outcome = run(&mut held.engine);
        HELD.with(|place| *place.borrow_mut() = Some(held));
        outcome
    }

    fn make(self: &Arc<Engines>, request: u64, interrupt: Interrupt) -> Result<Held> {
        let place = self.place(&interrupt)?;
        let heap = Heap::new(&self.budget, self.heap_bytes_max.load(Relaxed));
        let engine = Engine::new(heap, interrupt)?;
        log::debug!(target: "QUERY", id = 8200090, heapBytes = engine.held() as u64;
            "JavaScript engine made");
        Ok(Held { request, engine, _place: place })
    }

    fn place(self: &Arc<Engines>, interrupt: &Interrupt) -> Result<Place> {
        let mut running = self.running.lock();
        let mut waited = Duration::ZERO;
        while *running >= self.count_max {
            if waited >= WAIT {
                return Err(none_free());
            }
            self.freed.wait_for(&mut running, NAP);
            waited += NAP;
            interrupt()?;
        }
        *running += 1;
        Ok(Place(self.clone()))
    }
}
