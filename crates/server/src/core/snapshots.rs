//! Reads of one state outside transactions: `readConcern: {level: "snapshot"}`, `atClusterTime`.
//!
//! The first read of a session takes the state of the moment and is told its time, which is exact: every
//! commit up to it is visible, and none behind it. The next ones name that time. So a state is kept for
//! every time that was given out, as a transaction without writes, for `minSnapshotHistoryWindowInSeconds`.
//! Any other time of the past is gone (239).
//!
//! A change of a collection that was read ends the state, as it ends transactions (246).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::DocWriter;
use nagi_error::{Code, Result, bail};
use nagi_store::{Lifetime, Transaction};
use parking_lot::Mutex;

use crate::clock;
use crate::core::command::Context;
use crate::limits::SNAPSHOT_COUNT_MAX;
use crate::replica::ReplicaSet;
use crate::request::Request;

/// The states that are kept, by their times.
#[derive(Default)]
pub(crate) struct Snapshots {
    kept: Mutex<BTreeMap<u64, Kept>>,
}

struct Kept {
    state: Arc<Transaction>,
    since: Instant,
}

impl Snapshots {
    /// The state of a time that was given out, or of now. Codes 239, 246.
    fn state(
        &self,
        cx: &Context<'_>,
        replica: &ReplicaSet,
        time: Option<u64>,
    ) -> Result<(u64, Arc<Transaction>)> {
        if let Some(time) = time {
            if let Some(kept) = self.kept.lock().get(&time) {
                return Ok((time, Arc::clone(&kept.state)));
            }
            if time > replica.clock.cluster() {
                bail!(
                    Code::SNAPSHOT_UNAVAILABLE,
                    "Unable to read from a snapshot of a time to come"
                );
            }
            // No commit may have happened since then, or only a client has seen that time.
            replica.clock.advance_to(time)?;
            let state = Transaction::begin(&cx.server.store, Lifetime::Long)?;
            if state.read_stamp().0 == time {
                return Ok((time, self.keep(time, state)));
            }
            bail!(
                Code::SNAPSHOT_TOO_OLD,
                "Read timestamp Timestamp({}, {}) is older than the oldest available timestamp.",
                time >> 32,
                time & u64::from(u32::MAX)
            );
        }
        let state = Transaction::begin(&cx.server.store, Lifetime::Long)?;
        let time = state.read_stamp().0;
        Ok((time, self.keep(time, state)))
    }

    /// Keeps a snapshot for requests that name its time; of two equal ones with the same time, the newer.
    fn keep(&self, time: u64, state: Transaction) -> Arc<Transaction> {
        let state = Arc::new(state);
        let mut kept = self.kept.lock();
        kept.insert(time, Kept { state: Arc::clone(&state), since: clock::now() });
        if kept.len() > SNAPSHOT_COUNT_MAX {
            kept.pop_first();
        }
        state
    }

    /// Lets go of the states that are older than `window`, and of those that have ended.
    pub(crate) fn expire(&self, window: Duration) {
        let Some(before) = clock::now().checked_sub(window) else { return };
        self.kept.lock().retain(|_, kept| kept.since >= before && kept.state.ended().is_none());
    }

    /// Lets go of all.
    pub(crate) fn clear(&self) {
        self.kept.lock().clear();
    }
}

/// Runs a read in the state that its read concern asks for.
pub(crate) fn run(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    replica: &ReplicaSet,
    out: &mut DocWriter<'_>,
    inner: fn(&mut Context<'_>, &Request<'_>, &mut DocWriter<'_>) -> Result<()>,
) -> Result<()> {
    let pipeline = request.body.get("pipeline").as_array();
    if let Some(stage) = pipeline.and_then(nagi_query::refused_in_transaction) {
        bail!(
            Code::INVALID_OPTIONS,
            "Aggregation stage {stage} cannot run with a readConcern other than 'local'"
        );
    }
    let wanted = request.generic.read_concern.at_cluster_time;
    let (time, state) = cx.server.clients.snapshots.state(cx, replica, wanted)?;
    cx.bound = Some(Arc::clone(state.store()));
    cx.at_cluster_time = Some(time);
    let result = inner(cx, request, out);
    cx.bound = None;
    // What changed meanwhile was perhaps read in part.
    state.check_open()?;
    result
}
