//! Full-time diagnostic data capture: the recorder behind `diagnostic.data` and `getDiagnosticData`.
//!
//! ```text
//!   each second: sample --> chunk in memory --> 10 samples: metrics.interim
//!                                           --> 300 samples, or other fields: metrics.<time>-<number>
//! ```
//!
//! What a sample contains is written by `commands::diagnose::get_diagnostic_data`. No request waits for the files: the
//! recorder has a thread of its own, and the newest sample has a lock of its own. After an error of the files the
//! recorder leaves them alone for [`PAUSE_MS`]. A chunk that could not be written stays in memory until it can be.

mod archive;
mod file;
mod schedule;
mod system;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nagi_bson::{DocBuf, DocWriter};
use nagi_encryption::Keys;
use nagi_ftdc::{Added, Chunk, metadata_record};
use parking_lot::Mutex;

use self::archive::Archive;
use self::schedule::Schedule;
pub(crate) use self::system::{write_open_files_max, write_system_metrics, write_ulimits};

/// The folder within the data directory.
pub(crate) const FOLDER: &str = "diagnostic.data";
/// Time without an attempt to write files after one that failed.
const PAUSE_MS: i64 = 10_000;
/// Room in the folder for the chunk in progress, which is written to a new file before the old one is removed.
const INTERIM_BYTES: u64 = 1 << 20;

/// Where files are written.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    /// With keys the files are encrypted.
    pub(crate) keys: Option<Arc<Keys>>,
}

/// The parameters of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) folder_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) chunk_samples: usize,
    pub(crate) interim_samples: usize,
}

impl Limits {
    /// A file has at most a tenth of the folder, so that the removal of the oldest one removes little.
    fn file_bytes(&self) -> u64 {
        self.file_bytes.min(self.folder_bytes / 10)
    }

    /// What the files may have when one is begun.
    fn finished_bytes(&self) -> u64 {
        self.folder_bytes.saturating_sub(self.file_bytes() + INTERIM_BYTES)
    }
}

/// A sample to record.
pub(crate) struct Sample<'a> {
    /// When it was taken, in ms since 1970.
    pub(crate) now_ms: i64,
    pub(crate) doc: DocBuf,
    pub(crate) limits: Limits,
    /// Writes the first record of a new file.
    pub(crate) facts: &'a dyn Fn(&mut DocWriter<'_>),
}

/// Samples in memory and in files.
#[derive(Default)]
pub(crate) struct Recorder {
    /// Unset without a data directory: samples are not stored.
    place: OnceLock<Place>,
    latest: Mutex<DocBuf>,
    schedule: Mutex<Schedule>,
    state: Mutex<State>,
    /// The server stops: no more samples are taken. Locked while one is.
    closed: Mutex<bool>,
}

#[derive(Default)]
struct State {
    archive: Option<Archive>,
    /// The size by which files were removed last.
    trimmed_to: Option<u64>,
    chunk: Chunk,
    /// The interim file has a part of the chunk, rather than what a killed process has left.
    owns_interim: bool,
    /// When a write failed; none since the last one succeeded.
    failed_ms: Option<i64>,
}

impl Recorder {
    /// Samples are stored from now on. False if a place was set before: then that stays.
    pub(crate) fn set_place(&self, place: Place) -> bool {
        self.place.set(place).is_ok()
    }

    /// Where samples are stored.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.get()
    }

    /// The newest sample; empty before the first one.
    pub(crate) fn latest(&self) -> DocBuf {
        self.latest.lock().clone()
    }

    /// Calls `work`, during which [`Recorder::close`] waits; not after it.
    pub(crate) fn unless_closed(&self, work: impl FnOnce()) {
        let closed = self.closed.lock();
        if !*closed {
            work();
        }
    }

    /// True if a sample is due.
    pub(crate) fn is_due(&self, now_ms: i64, period_ms: i64) -> bool {
        self.schedule.lock().is_due(now_ms, period_ms)
    }

    /// The time until the next call of [`Recorder::is_due`].
    pub(crate) fn pause(&self, now_ms: i64) -> Duration {
        self.schedule.lock().pause(now_ms)
    }

    /// Adds a sample.
    pub(crate) fn record(&self, sample: &Sample<'_>) {
        self.latest.lock().clone_from(&sample.doc);
        let Some(place) = self.place.get() else { return };
        let state = &mut *self.state.lock();
        if !state.is_paused(sample.now_ms) {
            let stored = state.store(place, sample);
            state.note(sample.now_ms, stored);
        }
    }

    /// Writes the chunk in progress to its file, when recording is switched off. The next sample begins a new file.
    pub(crate) fn finish(&self, now_ms: i64) {
        let state = &mut *self.state.lock();
        if state.archive.is_some() {
            let stored = state.append_chunk();
            state.owns_interim = stored.is_ok();
            state.archive = None;
            state.chunk.clear();
            state.note(now_ms, stored);
        }
    }

    /// The same at a clean shutdown, after which no sample is taken.
    pub(crate) fn close(&self, now_ms: i64) {
        *self.closed.lock() = true;
        self.finish(now_ms);
    }
}

impl State {
    fn is_paused(&self, now_ms: i64) -> bool {
        // The clock may be set back, which ends a pause.
        self.failed_ms.is_some_and(|failed_ms| (0..PAUSE_MS).contains(&(now_ms - failed_ms)))
    }

    fn store(&mut self, place: &Place, sample: &Sample<'_>) -> io::Result<()> {
        self.open(place, sample)?;
        let samples_max = sample.limits.chunk_samples;
        let mut added = self.chunk.add(sample.now_ms, sample.doc.as_doc(), samples_max);
        if added == Added::Refused {
            self.append_chunk()?;
            self.open(place, sample)?;
            added = self.chunk.add(sample.now_ms, sample.doc.as_doc(), samples_max);
        }
        if added == Added::Full {
            return self.append_chunk();
        }
        if self.chunk.samples().is_multiple_of(sample.limits.interim_samples.max(1))
            && let (Some(archive), Some(record)) = (&self.archive, self.chunk.record())
        {
            archive.put_interim(record.as_bytes(), place.keys.as_deref())?;
        }
        Ok(())
    }

    /// Makes sure that there is a file with room for a chunk, and that the folder is not larger than it may be.
    fn open(&mut self, place: &Place, sample: &Sample<'_>) -> io::Result<()> {
        let limits = &sample.limits;
        let is_full = |archive: &Archive| archive.bytes() >= limits.file_bytes();
        // A chunk in progress is appended to the file in which it has begun.
        let may_end = self.chunk.samples() == 0;
        if self.archive.as_ref().is_none_or(|archive| may_end && is_full(archive)) {
            self.archive = None;
            self.begin(place, sample)?;
            self.trimmed_to = None;
        }
        if let Some(archive) = &self.archive
            && self.trimmed_to != Some(limits.finished_bytes())
        {
            archive.trim(limits.finished_bytes())?;
            self.trimmed_to = Some(limits.finished_bytes());
        }
        Ok(())
    }

    /// Begins a file: with what a killed process has left, and the facts.
    fn begin(&mut self, place: &Place, sample: &Sample<'_>) -> io::Result<()> {
        let mut archive = Archive::create(&place.folder, place.keys.as_deref(), sample.now_ms)?;
        let facts = DocBuf::build(|out| (sample.facts)(out));
        let record = metadata_record(sample.now_ms, facts.as_doc());
        let mut begin = || {
            if !self.owns_interim && archive.recover(place.keys.as_deref())? {
                log::info!(target: "FTDC", id = 8_200_225;
                    "The server was not shut down cleanly: its last diagnostic data are in the new file");
            }
            self.owns_interim = true;
            archive.append(record.as_bytes())
        };
        match begin() {
            Ok(()) => {
                self.archive = Some(archive);
                Ok(())
            }
            Err(error) => {
                archive.discard_if_empty();
                Err(error)
            }
        }
    }

    /// Appends the chunk to the file, and begins the next one. After an error the chunk is still there.
    fn append_chunk(&mut self) -> io::Result<()> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        if let Some(record) = self.chunk.record() {
            archive.append(record.as_bytes())?;
        }
        self.chunk.clear();
        archive.remove_interim()
    }

    /// Logs when the files cannot be written any more, and when they can again.
    fn note(&mut self, now_ms: i64, stored: io::Result<()>) {
        match stored {
            Ok(()) if self.failed_ms.is_some() => {
                log::info!(target: "FTDC", id = 8_200_211; "Diagnostic data can be written again");
                self.failed_ms = None;
            }
            Ok(()) => {}
            Err(error) => {
                if self.failed_ms.is_none() {
                    log::warn!(target: "FTDC", id = 8_200_210, error = error.to_string();
                        "Diagnostic data cannot be written; requests are not affected");
                }
                // The next attempt begins a new file: this one may end with a part of a record.
                self.archive = None;
                self.failed_ms = Some(now_ms);
            }
        }
    }
}
