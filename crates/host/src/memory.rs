//! Divides the budget among the caches, and runs the thread that keeps memory within its bound.
//!
//! The watcher thread takes a step every 50 ms, or every 10 ms while memory is tight. In a step it
//! 1. charges the conflict table's memory,
//! 2. reads resident memory and, if it is above the bound, returns free pages to the system (purge) and shrinks the
//!    budget of the caches (squeeze),
//! 3. trims and tunes the caches,
//! 4. publishes the figures for `serverStatus`.
//!
//! In a process that has memory of its own beside the database, step 2 does not take place: resident memory says
//! nothing about the database then.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nagi_budget::{Action, Budget, Charge, Division, Gauges, Pool, Resident, Watch};
use nagi_store::Store;

use crate::engine::EngineKind;

/// The interval of the watcher's steps; the second while memory is tight.
const CALM_STEP: Duration = Duration::from_millis(50);
const TIGHT_STEP: Duration = Duration::from_millis(10);
/// Caches are trimmed to their size once in this many steps.
const TRIM_EACH: u32 = 4;
/// The allocator's figures are read once in this many steps.
const FIGURES_EACH: u32 = 20;
/// Memory in addition to the data of the in-memory engine: for sorts, cursors and connections.
const WORK_BYTES: u64 = 512 << 20;

/// The budget for the in-memory engine with at most `data` bytes: the data, the allocator's overhead, and memory to
/// work with.
pub fn in_memory_budget(data: u64) -> u64 {
    data.saturating_add(data / 4).saturating_add(WORK_BYTES)
}

/// The memory of the process's allocator, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Allocated to the program.
    pub allocated: u64,
    /// Resident: allocated memory, pages kept for further allocations, and bookkeeping.
    pub resident: u64,
}

/// What the watcher needs of the process's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Allocator {
    /// Returns all free pages to the system.
    pub purge: fn(),
    /// Reads the current figures.
    pub figures: fn() -> Figures,
}

/// The memory that the watcher bounds.
#[derive(Clone, Copy, Debug)]
pub enum Watched {
    /// The resident memory of the process, which has nothing but the database.
    Process(Allocator),
    /// Only what is charged to the budget, and the caches: the process has other memory too.
    Account,
}

/// The watcher; dropping it stops and joins its thread.
pub struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Makes the caches follow the budget, and starts the watcher.
    pub fn start(store: &Arc<Store>, engine: EngineKind, watched: Watched) -> Watcher {
        let budget = store.budget().clone();
        let caches: Weak<Store> = Arc::downgrade(store);
        budget.attach_caches(move |bytes| {
            let Some(store) = caches.upgrade() else { return };
            store.resize_caches(bytes);
        });
        let Some(bytes) = budget.bytes() else { return Watcher { stop: None, thread: None } };
        let process = match watched {
            Watched::Account => None,
            Watched::Process(allocator) => match Process::open(bytes, engine, allocator) {
                Some(process) => Some(process),
                None => return Watcher { stop: None, thread: None },
            },
        };
        store.resize_caches(Division::of(bytes).caches);
        if let Watched::Process(allocator) = watched {
            budget.attach_purge(allocator.purge);
        }
        store.engine().limit_conflicts(budget.limit(Pool::Conflicts));
        let conflicts = Charge::empty(&budget, Pool::Conflicts);
        let (stop, stopped) = channel();
        let store = Arc::downgrade(store);
        let body = move || {
            let mut state = State { budget, store, process, step: 0, conflicts };
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

/// The watched process.
struct Process {
    allocator: Allocator,
    resident: Resident,
    watch: Watch,
}

impl Process {
    /// `None` if the system does not report resident memory.
    fn open(budget_bytes: u64, engine: EngineKind, allocator: Allocator) -> Option<Process> {
        let resident = Resident::open()?;
        let resident = match engine {
            EngineKind::Mapped => resident.without_mapped_files(),
            EngineKind::Embedded | EngineKind::Memory | EngineKind::Distributed => resident,
        };
        Some(Process { allocator, resident, watch: Watch::new(budget_bytes) })
    }

    /// Compares resident memory with the bound, and squeezes the caches by the excess. Returns the resident bytes.
    fn look(&mut self, budget: &Budget) -> Option<u64> {
        let mut bytes = self.resident.bytes()?;
        let over_before = self.watch.over_count;
        let action = self.watch.look(bytes);
        if self.watch.over_count > over_before {
            self.complain(bytes);
        }
        if action == Action::Purge {
            (self.allocator.purge)();
            bytes = self.resident.bytes().unwrap_or(bytes);
        }
        match self.watch.squeeze(bytes, budget.squeeze_max()) {
            Some(taken) => {
                let grew = taken > budget.squeezed();
                budget.squeeze(taken);
                if grew {
                    (self.allocator.purge)();
                }
            }
            None => budget.settle(true),
        }
        Some(bytes)
    }

    /// Logs that the bound was exceeded: the first time, then whenever the count has doubled.
    fn complain(&self, bytes: u64) {
        if self.watch.over_count.is_power_of_two() {
            log::warn!(target: "STORAGE", id = 8_200_021, residentBytes = bytes,
                boundBytes = self.watch.bound(), times = self.watch.over_count;
                "Resident memory was above the bound of the budget");
        }
    }

    fn gauges(&self, resident: u64, with_allocator: bool) -> Gauges {
        let allocator = with_allocator.then(self.allocator.figures);
        Gauges {
            resident,
            resident_peak: self.watch.peak,
            allocated: allocator.map(|figures| figures.allocated),
            allocator_resident: allocator.map(|figures| figures.resident),
            purge_count: self.watch.purge_count,
            squeeze_count: self.watch.squeeze_count,
            over_count: self.watch.over_count,
        }
    }
}

/// The state of the watcher's thread.
struct State {
    budget: Arc<Budget>,
    store: Weak<Store>,
    /// `None` if only the account is watched.
    process: Option<Process>,
    step: u32,
    /// The charge of the engine's conflict table, as of the last step.
    conflicts: Charge,
}

impl State {
    /// Takes one step. Returns true if memory is tight.
    fn step(&mut self) -> bool {
        if let Some(store) = self.store.upgrade() {
            let bytes = store.engine().conflict_bytes();
            self.conflicts.force(bytes.saturating_sub(self.conflicts.bytes()));
            self.conflicts.shrink_to(bytes);
        }
        let resident = match &mut self.process {
            Some(process) => match process.look(&self.budget) {
                Some(bytes) => Some(bytes),
                None => return false,
            },
            None => {
                self.budget.settle(true);
                None
            }
        };
        if self.step.is_multiple_of(TRIM_EACH) {
            self.budget.trim();
        }
        if let Some(store) = self.store.upgrade() {
            store.tune_caches();
        }
        let step = self.step;
        self.step = self.step.wrapping_add(1);
        let (Some(process), Some(bytes)) = (&self.process, resident) else { return false };
        self.budget.note(&process.gauges(bytes, step.is_multiple_of(FIGURES_EACH)));
        process.watch.is_tight(bytes)
    }
}
