//! Memory management of the process: divides the budget among the caches, and runs the thread that keeps resident
//! memory within its bound.
//!
//! The watcher thread takes a step every 50 ms, or every 10 ms while memory is tight. In a step it
//! 1. charges the conflict table's memory,
//! 2. reads resident memory and, if it is above the bound, returns free pages to the system (purge) and shrinks the
//!    budget of the caches (squeeze),
//! 3. trims and tunes the caches,
//! 4. publishes the figures for `serverStatus`.

mod raw;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nagi_budget::{Action, Budget, Charge, Division, Gauges, Pool, Resident, Watch};
use nagi_store::Store;

use crate::engine;
use crate::options::{EngineKind, Options};

/// The interval of the watcher's steps; the second while memory is tight.
const CALM_STEP: Duration = Duration::from_millis(50);
const TIGHT_STEP: Duration = Duration::from_millis(10);
/// Caches are trimmed to their size once in this many steps.
const TRIM_EACH: u32 = 4;
/// The allocator's figures are read once in this many steps.
const FIGURES_EACH: u32 = 20;
/// Memory in addition to the data of the in-memory engine: for sorts, cursors and connections.
const WORK_BYTES: u64 = 512 << 20;
/// The assumed memory of a machine that does not report it.
const UNKNOWN_MACHINE: u64 = 2 << 30;

/// The configured budget, or the default.
pub(crate) fn budget_bytes(options: &Options) -> u64 {
    if options.engine == EngineKind::Memory {
        // The data, the allocator's overhead, and memory to work with.
        let data = engine::in_memory_bytes(options);
        return data + data / 4 + WORK_BYTES;
    }
    options.cache_bytes.unwrap_or_else(|| {
        let machine = nagi_proc::memory_bytes().unwrap_or(UNKNOWN_MACHINE);
        nagi_budget::default_budget(machine, options.direct_io)
    })
}

/// The initial sizes of the caches: blocks, whole documents. Only the embedded engine has them; the others have the
/// data in memory already, or mapped.
pub(crate) fn cache_bytes(options: &Options) -> (u64, u64) {
    match options.engine {
        EngineKind::Embedded => {
            nagi_store::first_partition(Division::of(budget_bytes(options)).caches)
        }
        EngineKind::Mapped | EngineKind::Memory => (0, 0),
    }
}

/// The watcher; dropping it stops and joins its thread.
pub(crate) struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Makes the caches follow the budget, and starts the watcher.
    pub(crate) fn start(store: &Arc<Store>, engine: EngineKind) -> Watcher {
        let budget = store.budget().clone();
        let caches: Weak<Store> = Arc::downgrade(store);
        budget.attach_caches(move |bytes| {
            let Some(store) = caches.upgrade() else { return };
            store.resize_caches(bytes);
        });
        let (Some(bytes), Some(resident)) = (budget.bytes(), Resident::open()) else {
            return Watcher { stop: None, thread: None };
        };
        let resident = match engine {
            EngineKind::Mapped => resident.without_mapped_files(),
            EngineKind::Embedded | EngineKind::Memory => resident,
        };
        store.resize_caches(Division::of(bytes).caches);
        budget.attach_purge(raw::purge);
        store.engine().limit_conflicts(budget.limit(Pool::Conflicts));
        let conflicts = Charge::empty(&budget, Pool::Conflicts);
        let (stop, stopped) = channel();
        let store = Arc::downgrade(store);
        let body = move || {
            let watch = Watch::new(bytes);
            let mut state = Watched { budget, store, resident, watch, step: 0, conflicts };
            let mut pause = CALM_STEP;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = if state.step() { TIGHT_STEP } else { CALM_STEP };
            }
        };
        let thread = Builder::new().name("memory".into()).stack_size(256 << 10).spawn(body);
        let thread = thread.map_err(|error| {
            log::warn!(target: "STORAGE", id = 8_200_020, error = error.to_string();
                "Memory is not watched: cannot start a thread");
        });
        Watcher { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the watcher was already reported.
            let _ = thread.join();
        }
    }
}

struct Watched {
    budget: Arc<Budget>,
    store: Weak<Store>,
    resident: Resident,
    watch: Watch,
    step: u32,
    /// The charge of the engine's conflict table, as of the last step.
    conflicts: Charge,
}

impl Watched {
    /// Takes one step. Returns true if memory is tight.
    fn step(&mut self) -> bool {
        if let Some(store) = self.store.upgrade() {
            let bytes = store.engine().conflict_bytes();
            self.conflicts.force(bytes.saturating_sub(self.conflicts.bytes()));
            self.conflicts.shrink_to(bytes);
        }
        let Some(mut bytes) = self.resident.bytes() else { return false };
        let over_before = self.watch.over_count;
        if self.watch.look(bytes) == Action::Purge {
            raw::purge();
            bytes = self.resident.bytes().unwrap_or(bytes);
        }
        match self.watch.squeeze(bytes, self.budget.squeeze_max()) {
            Some(taken) => {
                let grew = taken > self.budget.squeezed();
                self.budget.squeeze(taken);
                if grew {
                    raw::purge();
                }
            }
            None => self.budget.settle(true),
        }
        if self.step.is_multiple_of(TRIM_EACH) {
            self.budget.trim();
        }
        if self.watch.over_count > over_before {
            self.complain(bytes);
        }
        if let Some(store) = self.store.upgrade() {
            store.tune_caches();
        }
        self.note(bytes);
        self.watch.is_tight(bytes)
    }

    /// Logs that the bound was exceeded: the first time, then whenever the count has doubled.
    fn complain(&self, bytes: u64) {
        if self.watch.over_count.is_power_of_two() {
            log::warn!(target: "STORAGE", id = 8_200_021, residentBytes = bytes,
                boundBytes = self.watch.bound(), times = self.watch.over_count;
                "Resident memory was above the bound of the budget");
        }
    }

    fn note(&mut self, resident: u64) {
        let allocator = match self.step % FIGURES_EACH {
            0 => Some(raw::figures()),
            _ => None,
        };
        self.step = self.step.wrapping_add(1);
        self.budget.note(&Gauges {
            resident,
            resident_peak: self.watch.peak,
            allocated: allocator.map(|figures| figures.allocated),
            allocator_resident: allocator.map(|figures| figures.resident),
            purge_count: self.watch.purge_count,
            squeeze_count: self.watch.squeeze_count,
            over_count: self.watch.over_count,
        });
    }
}
