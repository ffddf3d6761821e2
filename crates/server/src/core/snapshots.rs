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
//! unavailable (239); a store that several nodes share has all times of that window, which any of them may have told
//! (decision 116).
//!
//! DDL on a collection that was read invalidates the snapshot, as it aborts transactions (246).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::DocWriter;
use nagi_error::{Code, Error, Result, bail};
use nagi_store::{CommitStamp, End, Lifetime, Transaction};
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
            let kept = self.kept.lock().get(&time).map(|kept| Arc::clone(&kept.state));
            // One that DDL has invalidated may be taken again for other collections, if the store can do that.
            if let Some(state) = kept.filter(|state| !clock.has_past() || state.ended().is_none()) {
                return Ok((time, state));
            }
            clock.read_at(time)?;
            check_age(cx, clock, time)?;
            let state = Transaction::begin_at(&cx.server.store, CommitStamp(time))?;
            return Ok((time, self.keep(time, state)));
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

/// Refuses (239) times that no node keeps any more: all nodes answer the same.
fn check_age(cx: &Context<'_>, clock: &ClusterClock, time: u64) -> Result<()> {
    let window = cx.server.settings.params.int("minSnapshotHistoryWindowInSeconds").max(1);
    let age = (clock.cluster() >> 32).saturating_sub(time >> 32);
    if clock.has_past() && age > window.cast_unsigned() {
        return Err(too_old(time));
    }
    Ok(())
}

/// The error for a time whose state is not there any more.
pub(crate) fn too_old(time: u64) -> Error {
    Error::new(
        Code::SNAPSHOT_TOO_OLD,
        format!(
            "Read timestamp {} is older than the oldest available timestamp.",
            CommitStamp(time)
        ),
    )
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
