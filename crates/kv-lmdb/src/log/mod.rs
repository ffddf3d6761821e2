//! The engine's write-ahead log: the commits that are not in the data file yet.
//!
//! `data.mdb` is written seconds later, and syncing it takes long, so each commit is first written as a record of
//! the log. A record goes to the operating system at once (it survives the process) and to the disk with the next
//! sync (it survives the machine).
//!
//!   record.rs   format of a record
//!   segment.rs  format of a segment's head; reading a segment
//!   search.rs   finds the next whole record after a broken one
//!   replay.rs   reads all records after a start
//!   mod.rs      appending, syncing, releasing segments
//!
//! Segments are files of one size. Another thread allocates them ahead of need. A segment is reused once everything
//! in it is in the data file.

mod record;
mod replay;
mod search;
mod segment;

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_kv::{Error, Result};
use nagi_kv_disk::descriptors;
use parking_lot::Mutex;

pub(crate) use record::{Change, Record};
pub(crate) use replay::replay;
use segment::{HEAD_BYTES, Head};

/// Spare segments kept in addition to those in use.
const SPARES_MAX: usize = 2;
const PREFIX: &str = "j._";
const SPARE_PREFIX: &str = "prealloc.";
const UNFINISHED: &str = "prealloc.tmp";
/// The first stamp of a segment that gets no record.
const NEVER: u64 = u64::MAX / 2;

fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number}"))
}

/// Files of the directory `journal` with this prefix, in ascending order of their number.
fn numbered(dir: &Path, prefix: &str) -> Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(number) = name.and_then(|n| n.strip_prefix(prefix)?.parse::<u64>().ok()) {
            files.push((number, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Files that are ready to become segments; shared with the thread that makes them.
pub(crate) struct Spares {
    dir: PathBuf,
    /// A smaller file is not kept.
    bytes_min: u64,
    ready: Mutex<(u64, Vec<PathBuf>)>,
}

impl Spares {
    fn open(dir: &Path, segment_bytes: u64) -> Result<Spares> {
        let files = numbered(dir, SPARE_PREFIX)?;
        let next = files.last().map_or(0, |(number, _)| number + 1);
        let ready = files.into_iter().map(|(_, path)| path).collect();
        let bytes_min = segment_bytes / 2;
        Ok(Spares { dir: dir.to_owned(), bytes_min, ready: Mutex::new((next, ready)) })
    }

    pub(crate) fn count(&self) -> usize {
        self.ready.lock().1.len()
    }

    /// Keeps a file as a spare, or removes it if there are enough.
    pub(crate) fn add(&self, path: &Path) -> Result<()> {
        let small = fs::metadata(path)?.len() < self.bytes_min;
        let mut ready = self.ready.lock();
        if small || ready.1.len() >= SPARES_MAX {
            drop(ready);
            return Ok(fs::remove_file(path)?);
        }
        let spare = self.path_of(ready.0);
        fs::rename(path, &spare)?;
        ready.0 += 1;
        ready.1.push(spare);
        Ok(())
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{SPARE_PREFIX}{number}"))
    }

    /// The path that the next spare gets, for messages: it is another one if a segment is reused first.
    pub(crate) fn next_path(&self) -> PathBuf {
        self.path_of(self.ready.lock().0)
    }

    /// The path under which a spare is made, until it is complete.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.dir.join(UNFINISHED)
    }

    fn take(&self) -> Option<PathBuf> {
        self.ready.lock().1.pop()
    }
}

struct Segment {
    path: PathBuf,
    file: Arc<fs::File>,
    head: Head,
    /// Offset of the next record.
    position: u64,
    last_stamp: u64,
    /// True if it has bytes that are not known to be durable.
    dirty: bool,
}

/// The log while the engine is open; behind the commit lock.
pub(crate) struct Log {
    dir: PathBuf,
    segment_bytes: u64,
    spares: Arc<Spares>,
    current: Segment,
    /// Full segments, oldest first.
    full: Vec<Segment>,
    /// True if file names changed since the folder was last synced.
    dir_dirty: bool,
    /// The newest stamp known to be durable.
    synced: u64,
}

/// The files that a sync writes to disk, outside the commit lock.
pub(crate) struct SyncWork {
    files: Vec<(u64, Arc<fs::File>)>,
    dir: Option<PathBuf>,
}

impl Log {
    /// Opens the folder of a log. Nothing may be appended before `replay` has read the existing segments and
    /// `begin` has been called.
    pub(crate) fn open(dir: &Path, segment_bytes: u64) -> Result<Log> {
        match fs::remove_file(dir.join(UNFINISHED)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let spares = Arc::new(Spares::open(dir, segment_bytes)?);
        let mut full = Vec::new();
        for (number, path) in numbered(dir, PREFIX)? {
            let file = Arc::new(fs::OpenOptions::new().write(true).open(&path)?);
            let head = Head::new(number, 0);
            let (position, last_stamp) = (HEAD_BYTES, u64::MAX);
            // A process that was killed may have written it without a sync.
            full.push(Segment { path, file, head, position, last_stamp, dirty: true });
        }
        let number = full.last().map_or(1, |segment| segment.head.number + 1);
        let current = open_segment(dir, &spares, number, NEVER)?;
        Ok(Log {
            dir: dir.to_owned(),
            segment_bytes: segment_bytes.max(HEAD_BYTES * 2),
            spares,
            current,
            full,
            dir_dirty: true,
            synced: 0,
        })
    }

    /// Starts appending: everything up to `stamp` is in the data file, and the next commit follows it. The segments
    /// that existed before are released by the next `release`.
    pub(crate) fn begin(&mut self, stamp: u64) -> Result<()> {
        self.abandon_segment(stamp)?;
        self.full.iter_mut().for_each(|segment| segment.last_stamp = stamp);
        self.synced = stamp;
        Ok(())
    }

    /// An orderly close: everything is in the data file, so no segment is left to be read.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.spares.add(&self.current.path)
    }

    pub(crate) fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    /// The newest stamp known to be durable.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of segments in use.
    pub(crate) fn byte_count(&self) -> u64 {
        self.full.iter().map(|segment| segment.position).sum::<u64>() + self.current.position
    }

    /// Writes a record of the commits up to `last`. On an error the record is not in the log.
    pub(crate) fn append(&mut self, record: &mut Record, last: u64) -> Result<()> {
        let bytes = record.byte_count();
        let used = self.current.position > HEAD_BYTES;
        if used && self.current.position + bytes > self.segment_bytes {
            let number = self.current.head.number + 1;
            let next = open_segment(&self.dir, &self.spares, number, record.first_stamp())?;
            self.full.push(std::mem::replace(&mut self.current, next));
            self.dir_dirty = true;
        }
        let segment = &mut self.current;
        let sealed = record.seal(segment.head.salt, self.synced);
        segment.file.write_all_at(sealed, segment.position)?;
        segment.position += bytes;
        segment.last_stamp = last;
        segment.dirty = true;
        Ok(())
    }

    /// The files that are to be synced.
    pub(crate) fn sync_work(&self) -> SyncWork {
        let segments = self.full.iter().chain([&self.current]).filter(|segment| segment.dirty);
        SyncWork {
            files: segments.map(|s| (s.head.number, Arc::clone(&s.file))).collect(),
            dir: self.dir_dirty.then(|| self.dir.clone()),
        }
    }

    /// Records that `work` was synced: everything up to `newest` is durable. `newest` is the newest stamp from
    /// before the work was requested.
    pub(crate) fn set_synced(&mut self, work: &SyncWork, newest: u64) {
        for segment in self.full.iter_mut().chain([&mut self.current]) {
            let was_synced = work.files.iter().any(|(number, _)| *number == segment.head.number);
            if was_synced && segment.last_stamp <= newest {
                segment.dirty = false;
            }
        }
        // The name of a segment that was created in the meantime still has to be synced.
        let known = work.files.iter().any(|(number, _)| *number >= self.current.head.number);
        self.dir_dirty &= work.dir.is_none() || !known;
        self.synced = self.synced.max(newest);
    }

    /// Takes out the segments whose records are all in the data file.
    pub(crate) fn release(&mut self, applied: u64) -> Vec<PathBuf> {
        let count = self.full.iter().take_while(|segment| segment.last_stamp <= applied).count();
        self.synced = self.synced.max(applied);
        self.full.drain(..count).map(|segment| segment.path).collect()
    }

    /// Starts a new segment after a failed sync: the cached bytes of the current segment may never reach the disk,
    /// so no more records go there.
    pub(crate) fn abandon_segment(&mut self, newest: u64) -> Result<()> {
        let number = self.current.head.number + 1;
        let next = open_segment(&self.dir, &self.spares, number, newest + 1)?;
        self.full.push(std::mem::replace(&mut self.current, next));
        self.dir_dirty = true;
        Ok(())
    }
}

impl SyncWork {
    /// The numbers of the segments, and true if the folder is to be synced as well.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> (Vec<u64>, bool) {
        (self.files.iter().map(|(number, _)| *number).collect(), self.dir.is_some())
    }

    /// Syncs the oldest first, so that the durable part of the log never has a gap.
    pub(crate) fn run(&self) -> Result<()> {
        for (_, file) in &self.files {
            file.sync_data()?;
        }
        if let Some(dir) = &self.dir {
            descriptors::patiently(|| fs::File::open(dir))?.sync_all()?;
        }
        Ok(())
    }
}

fn open_segment(dir: &Path, spares: &Spares, number: u64, first_stamp: u64) -> Result<Segment> {
    let path = segment_path(dir, number);
    if let Some(spare) = spares.take() {
        fs::rename(&spare, &path)?;
    }
    // Without its next segment the engine cannot take commits, so opening it waits for a free file descriptor.
    let open = || fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = descriptors::patiently(open)?;
    let head = Head::new(number, first_stamp);
    file.write_all_at(&head.bytes(), 0).map_err(Error::from)?;
    Ok(Segment {
        path,
        file: Arc::new(file),
        head,
        position: HEAD_BYTES,
        last_stamp: first_stamp - 1,
        dirty: true,
    })
}
