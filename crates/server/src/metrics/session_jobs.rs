//! The last runs of the jobs that end sessions and remove their records: `logicalSessionRecordCache`.

use std::time::Instant;

use nagi_bson::{DocWriter, Value};
use parking_lot::Mutex;

use crate::clock;

/// What a job did in its last run, and the number of its runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    count: i32,
    began_ms: i64,
    took_ms: i32,
    /// Sessions that were ended, or records that were removed.
    entries: i32,
    cursors: i32,
}

/// Runs of one job.
#[derive(Default)]
pub(crate) struct Job(Mutex<Run>);

impl Job {
    /// Records a run that began at `began` and ends now.
    pub(crate) fn note(&self, began: Instant, entries: usize, cursors: usize) {
        let micros = clock::micros_since(began);
        let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let mut run = self.0.lock();
        *run = Run {
            count: run.count.saturating_add(1),
            began_ms: clock::wall_ms() - (micros / 1000) as i64,
            took_ms: i32::try_from(micros / 1000).unwrap_or(i32::MAX),
            entries: int(entries),
            cursors: int(cursors),
        };
    }
}

/// The two jobs.
#[derive(Default)]
pub(crate) struct SessionJobs {
    /// Ends sessions that were not used for long.
    pub(crate) ends: Job,
    /// Removes the records of transactions and retryable writes of old sessions.
    pub(crate) reaps: Job,
}

impl SessionJobs {
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let ends = *self.ends.0.lock();
        out.put("sessionsCollectionJobCount", ends.count);
        out.put("lastSessionsCollectionJobDurationMillis", ends.took_ms);
        out.put("lastSessionsCollectionJobTimestamp", Value::DateTime(ends.began_ms));
        // Sessions are in memory only: none is written to a collection.
        out.put("lastSessionsCollectionJobEntriesRefreshed", 0);
        out.put("lastSessionsCollectionJobEntriesEnded", ends.entries);
        out.put("lastSessionsCollectionJobCursorsClosed", ends.cursors);
        let reaps = *self.reaps.0.lock();
        out.put("transactionReaperJobCount", reaps.count);
        out.put("lastTransactionReaperJobDurationMillis", reaps.took_ms);
        out.put("lastTransactionReaperJobTimestamp", Value::DateTime(reaps.began_ms));
        out.put("lastTransactionReaperJobEntriesCleanedUp", reaps.entries);
    }
}
