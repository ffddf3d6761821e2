//! The catalog of nodes that share the data (decision 104).
//!
//! Each node has the whole catalog in memory, and no request asks the engine whether it is still right. So a change of
//! the catalog is made in steps in which all nodes take part:
//!
//! ```text
//!   node that changes               board (stored)              every other node
//!   freeze the own writers
//!   post an intent           -->    intent 7: collection 12
//!                                                         -->   freeze the writers of collection 12
//!   wait for all seats       <--    seat 1: closed [7]    <--   when they have left, say so in the own seat
//!   lock, catch up, change   -->    version 42: 12
//!   remove the intent        -->                          -->   read collection 12, let writers in
//!   wait for all seats       <--    seat 1: version 42    <--   say so
//!   answer the client
//! ```
//!
//! A writer therefore never commits with another version than the stored one, and after the answer every node reads
//! with the new one. A node that does not answer is either late, until its lease ends, or is declared dead then, and
//! its fences are written: whatever it still tries to commit is a conflict. So neither step relies on a clock, nor on a
//! node that is stopped at a bad moment.
//!
//! New collections have no writers, so they need no intent. Paths with arrays and facts of buckets, which plans rely on
//! in all nodes, are published in the same way before the write that makes them true.
//!
//! Nothing here waits for other nodes while it has the catalog lock, or the lock of DDL of this process; and the thread
//! that answers other nodes (`crate::attend`) waits for nothing. So nodes that change the catalog at once cannot wait
//! for each other.
//!
//! `lock.rs`: one change at a time; `intents.rs`: writers kept out; `follow.rs`: changes of other nodes; `facts.rs`;
//! `settings.rs`: documents that servers have in memory; `questions.rs`: what only their processes know; `nodes.rs`:
//! who shares the data; `past.rs`: earlier catalogs.

mod counts;
mod facts;
mod follow;
mod intents;
mod lock;
mod nodes;
mod past;
mod questions;
mod settings;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use nagi_error::{Code, Result, bail};
use nagi_kv::sync::{
    Condvar, Instant, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    thread,
};

use crate::{
    Store,
    catalog::CollectionState,
    engine_error::engine,
    ident::Ident,
    node::{Board, Intent, Lease, NodeId, Report, Seat},
};

pub(crate) use intents::Closing;
pub(crate) use lock::CatalogLock;
pub use nodes::NodeState;
use questions::Questions;
pub use questions::{NODE_ANSWER_BYTES_MAX, NodeAnswer, QUESTION_BYTES_MAX};
use settings::Settings;
pub(crate) use settings::is_setting;

/// How often a node looks at the board.
const POLL: Duration = Duration::from_millis(100);
/// The same for a second after a change: often others follow.
const POLL_BUSY: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_secs(1);
/// The same while writers leave a collection that another node wants to change.
const POLL_CLOSING: Duration = Duration::from_millis(5);
/// How often a node that changes the catalog looks for the answers of others.
const ANSWER_POLL: Duration = Duration::from_millis(10);
/// So long a change of the catalog waits for another node that lives and does not answer. A dead one is out after the
/// length of a lease.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// This node among those that share the data.
pub(crate) struct Members {
    lease: Arc<Lease>,
    /// The version of the catalog in memory. Changed under the lock of DDL.
    version: AtomicU64,
    /// Intents of other nodes.
    closed: Mutex<BTreeMap<u64, Closed>>,
    /// Own intents that are, or may be, on the board.
    posted: Mutex<BTreeSet<u64>>,
    /// A change of this node has failed, and it is not known if it has taken effect: until it is, nothing is written.
    pub(in crate::store) is_behind: AtomicBool,
    is_steward: AtomicBool,
    settings: Settings,
    questions: Questions,
    /// Index builds of this process.
    builds: AtomicUsize,
    stops: Mutex<bool>,
    stopped: Condvar,
}

/// The collections of an intent of another node.
#[derive(Default)]
struct Closed {
    frozen: BTreeMap<Ident, Arc<CollectionState>>,
    /// Its writers have left.
    is_left: bool,
}

/// An index build of this process, until it is dropped.
pub(crate) struct Building<'m>(&'m Members);

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.0.builds.fetch_sub(1, SeqCst);
    }
}

impl Members {
    /// Before an index build publishes anything.
    pub(crate) fn begin_build(&self) -> Building<'_> {
        self.builds.fetch_add(1, SeqCst);
        Building(self)
    }

    /// True if this process builds no index: what there is of its builds was left by failures.
    pub(crate) fn builds_nothing(&self) -> bool {
        self.builds.load(SeqCst) == 0
    }

    /// `version`: of the catalog in memory.
    pub(crate) fn new(lease: Arc<Lease>, version: u64) -> Members {
        Members {
            lease,
            version: AtomicU64::new(version),
            closed: Mutex::default(),
            posted: Mutex::default(),
            is_behind: AtomicBool::new(false),
            is_steward: AtomicBool::new(false),
            settings: Settings::default(),
            questions: Questions::default(),
            builds: AtomicUsize::new(0),
            stops: Mutex::default(),
            stopped: Condvar::new(),
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.lease.node()
    }

    pub(crate) fn name(&self) -> &str {
        self.lease.name()
    }

    /// True for the number of a part of counters that is this node's.
    pub(crate) fn is_own_part(&self, number: u16) -> bool {
        self.lease.is_own_part(number)
    }

    /// True for one of the nodes, for a moment at a handover for two: it does what one node has to do for all.
    pub(crate) fn is_steward(&self) -> bool {
        self.is_steward.load(SeqCst)
    }

    pub(crate) fn set_steward(&self, is_steward: bool) {
        self.is_steward.store(is_steward, SeqCst);
    }

    /// All seats, and the stamp of the snapshot that has them.
    pub(crate) fn seats(&self) -> Result<(Vec<Seat>, u64)> {
        self.lease.seats().map_err(engine)
    }

    /// Declares a node dead whose lease has ended.
    pub(crate) fn clear(&self, dead: &Seat) -> Result<()> {
        self.lease.clear(dead).map_err(engine)
    }

    /// True if this node has lost its seat or has left.
    pub(crate) fn is_over(&self) -> bool {
        self.lease.is_over()
    }

    /// Ends the thread that answers other nodes.
    pub(crate) fn stop(&self) {
        *self.stops.lock() = true;
        self.stopped.notify_all();
        self.end_questions();
    }

    /// True if the threads have to end.
    pub(crate) fn has_to_end(&self) -> bool {
        *self.stops.lock() || self.is_over()
    }

    /// The number of this node's seat.
    fn seat(&self) -> u16 {
        self.lease.seat_number()
    }

    /// Waits. Returns false if the thread has to end.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut stops = self.stops.lock();
        while !*stops && Instant::now() < until {
            self.stopped.wait_until(&mut stops, until);
        }
        !*stops
    }

    /// How long to wait before the next look at the board. `seen`: what the last look has found, and when it changed.
    pub(crate) fn next_look(&self, seen: &mut (u64, Instant)) -> Duration {
        let closed = self.closed.lock();
        // All only grow.
        let version = self.version.load(SeqCst) + self.settings_version() + self.questions_asked();
        if closed.values().any(|closed| !closed.is_left) {
            return POLL_CLOSING;
        }
        if seen.0 != version || !closed.is_empty() {
            *seen = (version, Instant::now());
        }
        let since = Instant::now().saturating_duration_since(seen.1);
        if since < BUSY { POLL_BUSY } else { POLL }
    }

    /// Tells the others which version of the catalog and of settings this node has, and which collections have no
    /// writers here.
    pub(crate) fn report(&self) -> Result<()> {
        let version = self.version.load(SeqCst);
        let mut report = Report { version, closed: Vec::new(), settings: self.settings_version() };
        for (intent, closed) in &mut *self.closed.lock() {
            closed.is_left |= closed.frozen.values().all(|state| state.is_left());
            if closed.is_left {
                report.closed.push(*intent);
            }
        }
        self.lease.report(&report).map_err(engine)
    }

    /// The catalog was up to date at this moment.
    pub(crate) fn note_fresh(&self) {
        self.lease.note_fresh();
    }

    /// Waits until `is_done` holds for the seats of all other nodes, or they are out.
    ///
    /// # Errors
    /// 24 if a node lives and does not answer. Those of the engine.
    fn wait_for_others(&self, what: &str, is_done: &dyn Fn(&Seat) -> bool) -> Result<()> {
        let until = Instant::now() + ANSWER_WAIT;
        loop {
            let (seats, now) = self.seats()?;
            let mut late = None;
            for seat in seats.iter().filter(|seat| seat.node != self.node() && !is_done(seat)) {
                if seat.until < now {
                    self.clear(seat)?;
                }
                late = Some(seat);
            }
            let Some(late) = late else { return Ok(()) };
            if Instant::now() >= until {
                bail!(
                    Code::LOCK_TIMEOUT,
                    "node {} has not {what} within {} seconds",
                    late.name,
                    ANSWER_WAIT.as_secs()
                );
            }
            thread::sleep(ANSWER_POLL);
        }
    }

    /// Waits until all other nodes use this version of the catalog.
    ///
    /// # Errors
    /// Those of [`Members::wait_for_others`].
    pub(crate) fn wait_for_version(&self, version: u64) -> Result<()> {
        self.wait_for_others("followed a change of the catalog", &|seat| {
            seat.report.version >= version
        })
    }
}

impl Store {
    /// Answers other nodes: follows their changes, keeps writers out of collections that they want to change, and says
    /// so. Removes what this node has left on the board. Waits for nothing but the engine.
    pub(crate) fn answer(&self, members: &Members) -> Result<()> {
        // Whoever has the lock follows the changes itself.
        if let Some(mut alone) = self.ddl.try_lock() {
            let board = self.catch_up(members, &mut alone)?;
            members.note_fresh();
            if board.lock == Some(members.node()) {
                self.unlock_catalog(members)?;
            }
            drop(alone);
            self.remove_forgotten(members, &board)?;
        }
        members.report()
    }

    /// Removes intents whose removal has failed.
    fn remove_forgotten(&self, members: &Members, board: &Board) -> Result<()> {
        let is_forgotten = |intent: &&Intent| {
            intent.node == members.node() && !members.posted.lock().contains(&intent.id)
        };
        board.intents.iter().filter(is_forgotten).try_for_each(|one| self.remove_intent(one.id))
    }
}
