//! The store as one node of several processes, over an engine to which other processes may write.
//!
//! An embedded engine promises that this process is the only writer (`Capabilities::only_writer`), and idents, record
//! numbers, the catalog in memory and the gates of DDL rely on it. Over another engine, [`join`] wraps the engine so
//! that a commit of a node without a lease is refused by the engine itself. The lease is that of the data, which one
//! node has alone, or that of one of the seats of nodes that share the data (decision 104, `store/members`). What need
//! not rely on one node does not: the wrapped engine lacks `only_writer`, so idents and record numbers are taken in
//! blocks (decision 101).
//!
//! ```text
//!   Store --> Member --> engine of the cluster
//!             |- lease     in the catalog: node, name, until when; renewed by a thread
//!             |            (`holder`: of the data; `seat`: of one of several nodes)
//!             |- fences    512 keys for each seat, one of which each commit writes
//!             `- counters  a part for each fence, so that two commits never write the same part
//! ```
//!
//! # Why a node without the lease cannot commit
//!
//! The lease ends at a stamp of the engine's clock, which is one clock for all nodes. A node takes over in a
//! transaction that reads at a stamp behind that end, and that writes the lease and all fences.
//!
//! ```text
//!   lease of A      until 100
//!   A  transaction  reads at 97 ............................ puts fence 3, commit    -> Conflict: written at 105
//!   B  takes over                reads at 104 (> 100), writes lease and fences at 105
//!   A  transaction                                reads at 106 (> 100): renews the lease first -> TakenOver
//! ```
//!
//! A commit of A that is earlier than 105 makes B's transaction a conflict, and B repeats it. So B's first read sees
//! every commit of A, and none follows. No clock of a machine has to be right for that, and no process may have been
//! stopped at a bad moment. A node that shares the data is declared dead in the same way: the other node removes its
//! seat, and writes its fences (`enter`). Clocks decide only when a node is given up, and whether a node whose lease
//! has ended still answers reads: [`lease::Lease::check`] refuses them by the monotonic clock.
//!
//! # Fences
//!
//! Two concurrent commits that write one key are a conflict, so each takes a fence of its own, [`slots`]. The number of
//! the fence is also that of the part of each counter to which the commit adds, and the fence remembers the part. Its
//! value names the commit, so it tells afterwards if a commit without an answer took effect ([`fence`]).
//!
//! `stripes`: keys that are spread over machines. `listing`: the order of the change log, over an engine without
//! `appends_by_stamp`.
//!
//! Nothing here is used over an embedded engine. `board`: what nodes that share the data tell each other. See decisions
//! 098 and 104, and docs/scale-out.md.

mod board;
mod counters;
mod engine;
mod enter;
mod fence;
mod holder;
mod lease;
mod listing;
pub(crate) mod log_keys;
pub(crate) mod mail;
mod seat;
mod slots;
pub(crate) mod stripes;
mod txn;

use std::{fmt, sync::Arc};

use nagi_error::Result;
use nagi_kv::Engine;

use crate::ident::Ident;

use engine::Member;

pub(crate) use board::{
    Board, Changes, Intent, advance_settings, put_intents, put_lock, remove_lock,
};
pub(crate) use lease::Lease;
pub(crate) use listing::{begin_log, log_parts};
pub(crate) use seat::{NodeId, Report, Seat};

/// Where the fences of a seat begin, and where they end.
pub(crate) fn fences_of(seat: u16) -> Vec<Vec<u8>> {
    let numbers = slots::of_seat(seat);
    vec![fence::key(*numbers.start()), fence::key(numbers.end() + 1)]
}

/// Where the parts of a collection's counters begin that a seat writes.
pub(crate) fn counters_of(collection: Ident, seat: u16) -> Vec<u8> {
    counters::part(&collection.bytes(), *slots::of_seat(seat).start())
}

/// How this process takes part in a cluster. Without effect over an embedded engine.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// If it has the data alone.
    pub mode: NodeMode,
    /// Its name in the errors and logs of other nodes.
    pub name: String,
    /// How long the lease lasts without being renewed: so long a node that was killed keeps others out. At least 3.
    pub lease_seconds: u32,
    /// If another node has the lease: wait until it has ended, or fail at once.
    pub waits: bool,
    /// Is told when another node has taken over: this process should end.
    pub on_lost: OnLost,
    /// New collections that are not capped have so many stripes, as a power of two up to 5, without being asked for it
    /// (`Store::spread_collection`). For tests; 0: none.
    pub stripes_power: u32,
}

/// Who has the data. All nodes over the same data have the same mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NodeMode {
    /// This node alone: others are refused until its lease has ended.
    #[default]
    Sole,
    /// It shares them with up to 127 others.
    Member,
}

/// A function that is called once, on any thread, when another node has taken over. It must not use the store.
#[derive(Clone, Default)]
pub struct OnLost(Option<Arc<dyn Fn() + Send + Sync>>);

impl OnLost {
    /// Calls `tell`.
    pub fn new(tell: impl Fn() + Send + Sync + 'static) -> OnLost {
        OnLost(Some(Arc::new(tell)))
    }

    fn tell(&self) {
        if let Some(tell) = &self.0 {
            tell();
        }
    }
}

impl fmt::Debug for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnLost").field(&self.0.is_some()).finish()
    }
}

impl Default for NodeOptions {
    fn default() -> NodeOptions {
        NodeOptions {
            mode: NodeMode::Sole,
            name: format!("process {}", std::process::id()),
            lease_seconds: 10,
            waits: true,
            on_lost: OnLost::default(),
            stripes_power: 0,
        }
    }
}

/// See [`join`].
pub(crate) struct Joined {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) seat: Option<Arc<Lease>>,
}

/// The engine that the store is to use: the engine itself if this process is its only writer, otherwise the engine as
/// it is seen by a node that has the lease. With it, the lease of a node that shares the data.
///
/// # Errors
/// 98 if another node has the lease and keeps it. Those of the engine.
pub(crate) fn join(on: Arc<dyn Engine>, options: &NodeOptions) -> Result<Joined> {
    if on.capabilities().only_writer {
        return Ok(Joined { engine: on, seat: None });
    }
    let lease = Arc::new(Lease::acquire(on, options)?);
    let engine = Arc::new(Member::new(Arc::clone(&lease)));
    Ok(Joined { engine, seat: lease.is_seat().then_some(lease) })
}
