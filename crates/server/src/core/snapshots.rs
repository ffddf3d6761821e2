//! Snapshot reads outside transactions: `readConcern: {level: "snapshot"}` with or without `atClusterTime`.
//!
//! The first read of a session takes the current snapshot, and its reply carries the snapshot's cluster time. The time
//! is exact: every commit up to it is visible, and no later one. The following reads name this time:
//!
//! ```text
//!  find,  readConcern {level: "snapshot"}                        -> atClusterTime: T   (a new snapshot is kept for T)
//!         ... other clients commit ...
//!  find,  readConcern {level: "snapshot", atClusterTime: T}      -> reads the kept snapshot
//! ```
//!
//! Each snapshot whose time a client knows is therefore kept, as a transaction without writes, for
//! `minSnapshotHistoryWindowInSeconds`; at most [`SNAPSHOT_COUNT_MAX`] are kept. Any other time of the past is
//! unavailable (239).
//!
//! DDL on a collection that was read invalidates the snapshot, as it aborts transactions (246).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::DocWriter;
use nagi_error::{Code, Result, bail};
use nagi_store::{End, Lifetime, Transaction};
use parking_lot::Mutex;

use crate::clock::now;
use crate::core::command::Context;
use crate::limits::SNAPSHOT_COUNT_MAX;
use crate::replica::ClusterClock;
use crate::request::Request;

/// The kept snapshots, by cluster time.
#[derive(Default)]
pub(crate) struct Snapshots {
    kept: Mutex<BTreeMap<u64, Kept>>,
}

struct Kept {
    state: Arc<Transaction>,
    since: Instant,
}

impl Snapshots {
    /// Returns the snapshot of a cluster time that a client was told, or the current snapshot. Codes 239, 246.
    fn state(
        &self,
        cx: &Context<'_>,
        clock: &ClusterClock,
        time: Option<u64>,
    ) -> Result<(u64, Arc<Transaction>)> {
        if let Some(time) = time {
            if let Some(kept) = self.kept.lock().get(&time) {
                return Ok((time, Arc::clone(&kept.state)));
            }
            if time > clock.cluster() {
                bail!(
                    Code::SNAPSHOT_UNAVAILABLE,
                    "Unable to read from a snapshot of a time to come"
                );
            }
            // The current snapshot is that of `time` if no commit has happened since; possibly only a client has seen
            // that time.
            clock.advance_to(time)?;
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

    /// Keeps a snapshot for requests that name its time. Snapshots with the same time are equal: cursors may read the
    /// one that is kept already, so that one is kept longer and the new one is dropped.
    fn keep(&self, time: u64, state: Transaction) -> Arc<Transaction> {
        let mut kept = self.kept.lock();
        if let Some(equal) = kept.get_mut(&time)
            && equal.state.ended().is_none()
        {
            equal.since = now();
            return Arc::clone(&equal.state);
        }
        let state = Arc::new(state);
        kept.insert(time, Kept { state: Arc::clone(&state), since: now() });
        if kept.len() > SNAPSHOT_COUNT_MAX
            && let Some((_, oldest)) = kept.pop_first()
        {
            oldest.state.end(End::Expired);
        }
        state
    }

    /// Drops the snapshots that are older than `window` and those that were invalidated. Cursors that read them end
    /// with 239.
    pub(crate) fn expire(&self, window: Duration) {
        let Some(before) = now().checked_sub(window) else { return };
        self.kept.lock().retain(|_, kept| {
            if kept.since < before {
                kept.state.end(End::Expired);
            }
            kept.state.ended().is_none()
        });
    }

    /// Drops all snapshots.
    pub(crate) fn clear(&self) {
        self.kept.lock().clear();
    }
}

/// Runs a read on the snapshot that its read concern requests.
pub(crate) fn run(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    clock: &ClusterClock,
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
    let (time, state) = cx.server.clients.snapshots.state(cx, clock, wanted)?;
    cx.bound = Some(Arc::clone(state.store()));
    cx.at_cluster_time = Some(time);
    let result = inner(cx, request, out);
    cx.bound = None;
    // If DDL changed a collection during the read, the result may mix old and new data.
    state.check_open()?;
    result
}
