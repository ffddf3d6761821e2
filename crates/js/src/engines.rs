//! All engines of a server: limits their number and their memory, and assigns them to threads.
//!
//! An engine cannot move to another thread. The thread of a request therefore keeps the request's engine in a
//! thread-local variable. The engine is created at the first call and dropped when the request ends ([`release`]).

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
use crate::natives::forget_sleep;
use crate::{Interrupt, Stored};

/// How long a request waits for another request's engine to be dropped.
const WAIT: Duration = Duration::from_secs(30);
/// The interval of the interrupt checks while waiting.
const NAP: Duration = Duration::from_millis(10);

/// The engines of a server.
pub struct Engines {
    budget: Arc<Budget>,
    /// The maximum number of engines at once.
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

/// A slot among the running engines; freed when dropped.
struct Place(Arc<Engines>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.freed.notify_one();
    }
}

/// The engine of a thread. It is dropped before its slot is freed.
struct Held {
    request: u64,
    engine: Engine,
    _place: Place,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Drops the engine of this thread, if it has one. Called at the end of a request.
pub fn release() {
    let held = HELD.with(|held| held.borrow_mut().take());
    if held.is_some() {
        forget_sleep();
    }
}

impl Engines {
    /// Limits the engines to `count_max` at once and to `heap_bytes_max` each (0: only by the budget). Creates no
    /// engine yet.
    pub fn new(budget: Arc<Budget>, count_max: usize, heap_bytes_max: usize) -> Arc<Engines> {
        Arc::new(Engines {
            budget,
            count_max,
            running: Mutex::new(0),
            freed: Condvar::new(),
            heap_bytes_max: AtomicUsize::new(heap_bytes_max),
        })
    }

    /// Sets the memory limit of engines created from now on; 0: limited only by the budget.
    pub fn set_heap_limit(&self, bytes: usize) {
        self.heap_bytes_max.store(bytes, Relaxed);
    }

    /// The number of running engines.
    pub fn running(&self) -> usize {
        *self.running.lock()
    }

    /// [`nagi_lang::script::Scripts::call`] for a request; `request` is its unique number.
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

    /// [`nagi_lang::script::Scripts::test`] for a request. The `stored` functions are loaded once.
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

    /// [`nagi_lang::script::Scripts::map`] for a request. The `stored` functions are loaded once, and later functions
    /// of the request see them too.
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

    /// Runs `run` with the engine of this thread's request. The thread-local variable is empty meanwhile, so `run` must
    /// not call this recursively.
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
