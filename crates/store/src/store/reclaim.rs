//! Background deletion of dropped collections and indexes, after the reply.
//!
//! When a job arrives here, the drop is durable and published: no new operation finds the collection or index. One
//! thread waits until the writers that still use an old version have finished, deletes the key ranges and then the
//! `Dropped` entries of their idents. The next start resumes a deletion that a crash interrupted.

use std::sync::Arc;

use nagi_error::{Code, Result};
use nagi_kv::sync::{
    Mutex, Sender, channel,
    thread::{Builder, JoinHandle},
};
use nagi_kv::{Durability, Engine, Space, TxnOptions};

use crate::{
    Collection,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    index::Bulk,
};

/// The deletions left by one DDL statement.
pub(crate) struct Job {
    /// Versions that writers may still use.
    pub(crate) replaced: Vec<Arc<Collection>>,
    /// Builds of dropped indexes: a load may still be in progress.
    pub(crate) builds: Vec<Arc<Bulk>>,
    pub(crate) ranges: Vec<(Space, Ident)>,
}

/// The thread and its job queue. Dropping it finishes all jobs first.
pub(crate) struct Reclaimer {
    jobs: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
    engine: Arc<dyn Engine>,
}

impl Reclaimer {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Reclaimer {
        Reclaimer { jobs: Mutex::new(None), engine }
    }

    /// Queues the job; runs it at once if no thread can be started.
    pub(crate) fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        if jobs.is_none() {
            let (sender, receiver) = channel::<Job>();
            let engine = Arc::clone(&self.engine);
            let thread = Builder::new().name("dropReclaimer".into());
            let spawned = thread.spawn(move || {
                receiver.into_iter().for_each(|job| run(&*engine, job));
            });
            *jobs = spawned.ok().map(|thread| (sender, thread));
        }
        let refused = match &*jobs {
            Some((sender, _)) => sender.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            run(&*self.engine, job);
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.jobs.get_mut().take() {
            drop(sender);
            // A panic of the thread has been reported; the next start resumes the remaining deletions.
            let _ = thread.join();
        }
    }
}

fn run(engine: &dyn Engine, job: Job) {
    for old in &job.replaced {
        old.state.wait_for_earlier();
    }
    for build in &job.builds {
        drop(build.loading.lock());
    }
    if let Err(error) = drop_ranges(engine, &job.ranges) {
        log::warn!(target: "STORAGE", id = 9_000_021, error:% = error;
            "Cannot reclaim the space of a dropped collection; the next start retries");
    }
}

/// Deletes ranges that are no longer used, then their `Dropped` entries.
pub(crate) fn drop_ranges(on: &dyn Engine, ranges: &[(Space, Ident)]) -> Result<()> {
    if ranges.is_empty() {
        return Ok(());
    }
    for (space, ident) in ranges {
        on.drop_range(*space, &ident.bytes(), &ident.end()).map_err(engine)?;
    }
    let mut txn = on.begin(TxnOptions::default()).map_err(engine)?;
    for (space, ident) in ranges {
        let key = ident.catalog_key(CatalogKey::Dropped);
        txn.delete(Space::Catalog, &key).map_err(engine)?;
        if space.is_records() {
            txn.delete(Space::Counters, &ident.bytes()).map_err(engine)?;
            let key = ident.catalog_key(CatalogKey::BucketFacts);
            txn.delete(Space::Catalog, &key).map_err(engine)?;
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
