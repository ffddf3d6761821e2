//! A log whose order is in lists of commits (`node/listing.rs`), and how it is read: one document for each stamp, with
//! the operations of all commits that have it.
//!
//! ```text
//!   horizons  a scan: all nodes have listed their commits up to the least of them
//!   lists     a scan from the reader's position up to there; sorted: the same order at all nodes
//!   entries   batches of gets, by the keys that the lists tell, bounded by their bytes
//! ```
//!
//! Everything is read in one snapshot, so a list without its entries, or a horizon before its lists, cannot be seen.

use std::time::Duration;

use nagi_error::{Code, Result, bail};
use nagi_kv::{
    Read, Space,
    sync::{
        Condvar, Instant, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use super::feed::{LogDocument, PORTION_BYTES_MAX, PORTION_DOCUMENTS_MAX};
use crate::{
    engine_error::engine,
    memory,
    node::log_keys::{self, Listed, Status},
    store::reader::Reader,
};

/// A stream that has read everything looks at the horizons again after this time.
const LOOK_EACH: Duration = Duration::from_millis(50);
/// Lists that are read at once have no more commits than this: those of one slice are sorted in memory.
const SLICE_COMMITS_MAX: usize = 1 << 20;

/// What this node knows of the lists.
#[derive(Default)]
pub(crate) struct Lists {
    known: Mutex<Known>,
    first: AtomicU64,
    stops: Mutex<bool>,
    stopped: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Known {
    /// All commits up to this stamp are listed in snapshots from `snapshot` on.
    horizon: u64,
    snapshot: u64,
    looked_at: Option<Instant>,
    /// The last look: its snapshot, and what it has found.
    last: Option<(u64, Status)>,
}

impl Lists {
    /// Ends the thread that reads ahead.
    pub(crate) fn stop(&self) {
        *self.stops.lock() = true;
        self.stopped.notify_all();
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

    /// The log begins with this stamp, as far as this node knows.
    pub(crate) fn first(&self) -> u64 {
        self.first.load(SeqCst)
    }

    /// The greatest horizon that was seen.
    pub(crate) fn horizon(&self) -> u64 {
        self.known.lock().horizon
    }

    /// Looks at the horizons. A scan.
    pub(crate) fn look(&self, reader: &Reader<'_>) -> Result<Status> {
        let snapshot = reader.stamp().map_or(0, |stamp| stamp.0);
        let status = log_keys::status(reader.read, snapshot).map_err(engine)?;
        self.first.fetch_max(status.first.unwrap_or(0), SeqCst);
        let mut known = self.known.lock();
        (known.looked_at, known.last) = (Some(Instant::now()), Some((snapshot, status)));
        if status.horizon > known.horizon {
            (known.horizon, known.snapshot) = (status.horizon, snapshot);
        }
        Ok(status)
    }

    /// The stamp up to which a reader behind `after` finds everything in its snapshot.
    pub(crate) fn up_to(&self, reader: &Reader<'_>, after: u64) -> Result<u64> {
        let snapshot = reader.stamp().map_or(0, |stamp| stamp.0);
        let known = *self.known.lock();
        // A node that was idle may have stored an older horizon since: what was seen before stays true.
        let horizon = if known.snapshot <= snapshot { known.horizon } else { 0 };
        let is_new = known.looked_at.is_some_and(|at| at.elapsed() < LOOK_EACH);
        if horizon > after || horizon > 0 && is_new {
            return Ok(horizon);
        }
        Ok(self.look(reader)?.horizon.max(horizon))
    }

    /// Reads documents behind `after`, up to a stamp of [`Lists::up_to`], and returns the stamp up to which it has read
    /// all.
    pub(crate) fn read_some(
        &self,
        reader: &Reader<'_>,
        (after, up_to): (u64, u64),
        tick: &mut dyn FnMut() -> Result<()>,
        put: &mut dyn FnMut(LogDocument),
    ) -> Result<u64> {
        // Of this very snapshot: what was removed is missing in it.
        let last = self.known.lock().last;
        let stamp = reader.stamp().map_or(0, |stamp| stamp.0);
        let status = match last.filter(|(snapshot, _)| *snapshot == stamp) {
            Some((_, status)) => status,
            None => self.look(reader)?,
        };
        check_kept(status.first.unwrap_or(0), after)?;
        let range = log_keys::lists_from(after.saturating_add(1));
        let mut cursor =
            reader.read.cursor(Space::Changes, &range.start, &range.end).map_err(engine)?;
        let mut found = cursor.seek(&range.start).map_err(engine)?;
        let mut portion = Portion::default();
        while found {
            let end = log_keys::slice_end(cursor.key()).map_err(engine)?;
            let mut commits = Vec::new();
            while found && log_keys::slice_end(cursor.key()).map_err(engine)? == end {
                tick()?;
                let list = (cursor.key(), cursor.value());
                log_keys::read_list(list, &mut commits).map_err(engine)?;
                if commits.len() > SLICE_COMMITS_MAX {
                    bail!(Code::INTERNAL_ERROR, "too many commits in a moment");
                }
                found = cursor.next().map_err(engine)?;
            }
            commits.retain(|commit| commit.stamp > after && commit.stamp <= up_to);
            commits.sort_unstable();
            // A list whose write was not answered may be there twice.
            commits.dedup();
            if let Some(reached) = portion.read(reader.read, &commits, tick, put)? {
                return Ok(reached);
            }
            if end >= up_to {
                break;
            }
        }
        Ok(up_to)
    }
}

/// Fails if commits behind `after` were removed from the log, which begins with `first`.
pub(super) fn check_kept(first: u64, after: u64) -> Result<()> {
    if first > after.saturating_add(1) {
        bail!(
            Code::CAPPED_POSITION_LOST,
            "entries of the oplog after {} were removed before they were read",
            nagi_kv::CommitStamp(after)
        );
    }
    Ok(())
}

/// What was read so far.
#[derive(Default)]
struct Portion {
    documents: usize,
    bytes: usize,
}

impl Portion {
    fn is_full(&self) -> bool {
        self.documents >= PORTION_DOCUMENTS_MAX || self.bytes >= PORTION_BYTES_MAX
    }

    /// Reads the entries of commits, those of some stamps at once. Returns the last stamp if it is full.
    fn read(
        &mut self,
        read: &dyn Read,
        commits: &[Listed],
        tick: &mut dyn FnMut() -> Result<()>,
        put: &mut dyn FnMut(LogDocument),
    ) -> Result<Option<u64>> {
        let mut rest = commits;
        while let Some(first) = rest.first() {
            if self.is_full() {
                return Ok(Some(first.stamp - 1));
            }
            let (mut bytes, mut count, mut stamps) = (0, 0, 0);
            for of_stamp in rest.chunk_by(|a, b| a.stamp == b.stamp) {
                let more: usize = of_stamp.iter().map(|commit| commit.bytes as usize).sum();
                let room = self.bytes + bytes + more <= PORTION_BYTES_MAX
                    && self.documents + stamps < PORTION_DOCUMENTS_MAX;
                if stamps > 0 && !room {
                    break;
                }
                (bytes, count, stamps) = (bytes + more, count + of_stamp.len(), stamps + 1);
            }
            tick()?;
            memory::wait(bytes, "changes for change streams")?;
            let (now, later) = rest.split_at(count);
            read_commits(read, now, put)?;
            (self.documents, self.bytes, rest) =
                (self.documents + stamps, self.bytes + bytes, later);
        }
        Ok(None)
    }
}

/// Makes the documents of commits from their entries.
fn read_commits(
    read: &dyn Read,
    commits: &[Listed],
    put: &mut dyn FnMut(LogDocument),
) -> Result<()> {
    let keys: Vec<_> =
        commits.iter().flat_map(|commit| (0..commit.parts).map(|part| commit.key(part))).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
    let mut values: Vec<Vec<u8>> = Vec::with_capacity(keys.len());
    for some in keys.chunks(read.keys_at_once()) {
        read.get_many(Space::Changes, some, &mut |_, value| {
            values.push(value.unwrap_or_default().to_vec());
        })
        .map_err(engine)?;
    }
    let mut values = values.iter();
    for of_stamp in commits.chunk_by(|a, b| a.stamp == b.stamp) {
        let parts: usize = of_stamp.iter().map(|commit| usize::from(commit.parts)).sum();
        let mut entries = Vec::new();
        for value in values.by_ref().take(parts) {
            entries.extend(log_keys::entries(value).map_err(engine)?);
        }
        let stamp = of_stamp.first().map_or(0, |commit| commit.stamp);
        put(LogDocument::of_entries(stamp, &entries)?);
    }
    Ok(())
}
