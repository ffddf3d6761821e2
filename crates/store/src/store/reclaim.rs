//! Background deletion of dropped collections and indexes, after the reply.
//!
//! When a job arrives here, the drop is durable and published: no new operation finds the collection or index. One
//! thread waits until the writers that still use an old version have finished, deletes the key ranges and then the
//! `Dropped` entries of their idents. The next start resumes a deletion that a crash interrupted.

use std::{sync::Arc, time::Duration};

use nagi_error::{Code, Result};
use nagi_kv::sync::{
    Instant, Mutex, Sender, channel,
    thread::{Builder, JoinHandle},
};
use nagi_kv::{Durability, Engine, KeyRange, Space, TxnOptions};

use crate::{
    Collection,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    index::Bulk,
    store::commit::held::HeldCommits,
};

/// The deletions left by one DDL statement.
pub(crate) struct Job {
    /// Versions that writers may still use.
    pub(crate) replaced: Vec<Arc<Collection>>,
    /// Builds of dropped indexes: a load may still be in progress.
    pub(crate) builds: Vec<Arc<Bulk>>,
    pub(crate) ranges: Vec<(Space, Ident)>,
}

impl Job {
    /// What an earlier process has left.
    pub(crate) fn left_over(ranges: Vec<(Space, Ident)>) -> Job {
        Job { replaced: Vec::new(), builds: Vec::new(), ranges }
    }
}

/// The thread and its job queue. Dropping it finishes all jobs first. If the engine removes the keys one by one, it
/// finishes what takes two seconds, and the next start continues.
pub(crate) struct Reclaimer {
    jobs: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
    worker: Arc<Worker>,
}

struct Worker {
    engine: Arc<dyn Engine>,
    held: Arc<HeldCommits>,
    /// When jobs are to be left to the next start.
    stops: Mutex<Option<Instant>>,
}

/// So long the exit of the process waits for an engine that removes the keys one by one.
const EXIT_WAIT: Duration = Duration::from_secs(2);

impl Reclaimer {
    pub(crate) fn new(engine: Arc<dyn Engine>, held: Arc<HeldCommits>) -> Reclaimer {
        let worker = Worker { engine, held, stops: Mutex::default() };
        Reclaimer { jobs: Mutex::new(None), worker: Arc::new(worker) }
    }

    /// Queues the job; runs it at once if no thread can be started.
    pub(crate) fn push(&self, job: Job) {
        if job.ranges.is_empty() {
            return;
        }
        let mut jobs = self.jobs.lock();
        if jobs.is_none() {
            let (sender, receiver) = channel::<Job>();
            let worker = Arc::clone(&self.worker);
            let thread = Builder::new().name("dropReclaimer".into());
            let spawned = thread.spawn(move || {
                receiver.into_iter().for_each(|job| worker.run(job));
            });
            *jobs = spawned.ok().map(|thread| (sender, thread));
        }
        let refused = match &*jobs {
            Some((sender, _)) => sender.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            self.worker.run(job);
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.jobs.get_mut().take() {
            if !self.worker.engine.capabilities().drops_at_once {
                *self.worker.stops.lock() = Some(Instant::now() + EXIT_WAIT);
            }
            drop(sender);
            // A panic of the thread has been reported; the next start resumes the remaining deletions.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(&self, job: Job) {
        let go_on = || self.stops.lock().is_none_or(|stops| Instant::now() < stops);
        if !go_on() {
            return;
        }
        for old in &job.replaced {
            old.state.wait_for_earlier();
        }
        for build in &job.builds {
            drop(build.loading.lock());
        }
        let _committing = self.held.begin();
        if let Err(error) = drop_ranges(&*self.engine, &job.ranges, &go_on) {
            log::warn!(target: "STORAGE", id = 9_000_021, error:% = error;
                "Cannot reclaim the space of a dropped collection; the next start retries");
        }
    }
}

/// Deletes ranges that are no longer used, then their `Dropped` entries. If `go_on` returns false, the rest is left to
/// the next start.
pub(crate) fn drop_ranges(
    on: &dyn Engine,
    ranges: &[(Space, Ident)],
    go_on: &dyn Fn() -> bool,
) -> Result<()> {
    if ranges.is_empty() {
        return Ok(());
    }
    for (space, ident) in ranges {
        let (start, end) = (ident.bytes(), ident.end());
        let range = KeyRange { space: *space, start: &start, end: &end, live_count: None };
        if !on.drop_range_watched(range, &mut |_, _| go_on()).map_err(engine)? {
            return Ok(());
        }
    }
    let mut txn = on.begin(TxnOptions::default()).map_err(engine)?;
    for (space, ident) in ranges {
        let key = ident.catalog_key(CatalogKey::Dropped);
        txn.delete(Space::Catalog, &key).map_err(engine)?;
        if space.is_records() {
            txn.delete(Space::Counters, &ident.bytes()).map_err(engine)?;
            let key = ident.catalog_key(CatalogKey::BucketFacts);
            txn.delete(Space::Catalog, &key).map_err(engine)?;
            if !on.capabilities().only_writer {
                let key = ident.catalog_key(CatalogKey::NextRecord);
                txn.delete(Space::Catalog, &key).map_err(engine)?;
            }
        } else {
            let key = ident.catalog_key(CatalogKey::Multikey);
            txn.delete(Space::Catalog, &key).map_err(engine)?;
        }
    }
    match txn.commit(Durability::Buffered).map_err(engine) {
        // Another thread is deleting the same entries.
        Err(error) if error.code() == Code::WRITE_CONFLICT => Ok(()),
        other => other.map(drop),
    }
}
