//! Full-time diagnostic data capture: the recorder behind `diagnostic.data` and `getDiagnosticData`.
//!
//! ```text
//!   each second: sample --> chunk in memory --> 10 samples: metrics.interim
//!                                           --> 300 samples, or other fields: metrics.<time>-<number>
//! ```
//!
//! What a sample contains is written by `commands::diagnose::get_diagnostic_data`. No request waits for the recorder:
//! it has a thread of its own, and an error of its files is logged and counted, no more.

mod archive;
mod system;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use nagi_bson::{DocBuf, DocWriter};
use nagi_ftdc::{Added, Chunk, metadata_record};
use parking_lot::Mutex;

use self::archive::Archive;
pub(crate) use self::system::write_system_metrics;

/// The folder within the data directory.
const FOLDER: &str = "diagnostic.data";
/// Size at which a file is finished. A tenth of the folder, if that is less.
const FILE_BYTES_MAX: u64 = 10 << 20;
/// Samples after which the chunk in progress is written, so that a killed process loses few.
const INTERIM_SAMPLES: usize = 10;

/// Samples in memory and in files.
#[derive(Default)]
pub(crate) struct Recorder {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None without a data directory: samples are not stored.
    folder: Option<PathBuf>,
    archive: Option<Archive>,
    chunk: Chunk,
    latest: DocBuf,
    failing: bool,
}

impl Recorder {
    /// Sets the data directory; samples are stored from now on.
    pub(crate) fn set_data_folder(&self, data: &Path) {
        self.state.lock().folder = Some(data.join(FOLDER));
    }

    /// The newest sample; empty before the first one.
    pub(crate) fn latest(&self) -> DocBuf {
        self.state.lock().latest.clone()
    }

    /// Adds a sample. `facts` writes the first record of a new file; `folder_bytes_max` is the folder's size.
    pub(crate) fn record(
        &self,
        now_ms: i64,
        sample: DocBuf,
        folder_bytes_max: u64,
        facts: &dyn Fn(&mut DocWriter<'_>),
    ) {
        let state = &mut *self.state.lock();
        state.latest = sample;
        if state.folder.is_none() {
            return;
        }
        let stored = state.store(now_ms, folder_bytes_max, facts);
        state.log_change(stored);
    }

    /// Writes the chunk in progress to its file: at a clean shutdown, or when recording is switched off.
    pub(crate) fn finish(&self) {
        let state = &mut *self.state.lock();
        if state.archive.is_some() {
            let stored = state.end_chunk();
            state.archive = None;
            state.log_change(stored);
        }
    }
}

impl State {
    fn store(
        &mut self,
        now_ms: i64,
        folder_bytes_max: u64,
        facts: &dyn Fn(&mut DocWriter<'_>),
    ) -> io::Result<()> {
        self.open(now_ms, folder_bytes_max, facts)?;
        let mut added = self.chunk.add(now_ms, self.latest.as_doc());
        if added == Added::OtherFields {
            self.end_chunk()?;
            added = self.chunk.add(now_ms, self.latest.as_doc());
        }
        if added == Added::Full {
            return self.end_chunk();
        }
        if self.chunk.samples().is_multiple_of(INTERIM_SAMPLES)
            && let (Some(archive), Some(record)) = (&self.archive, self.chunk.record())
        {
            archive.put_interim(record.as_bytes())?;
        }
        Ok(())
    }

    /// Makes sure that there is a file with room for a chunk.
    fn open(
        &mut self,
        now_ms: i64,
        folder_bytes_max: u64,
        facts: &dyn Fn(&mut DocWriter<'_>),
    ) -> io::Result<()> {
        let file_bytes_max = FILE_BYTES_MAX.min(folder_bytes_max / 10);
        let full = self.archive.as_ref().is_none_or(|archive| archive.bytes() >= file_bytes_max);
        let Some(folder) = self.folder.as_ref().filter(|_| full) else { return Ok(()) };
        self.archive = None;
        let mut archive = Archive::create(folder, now_ms)?;
        let facts = DocBuf::build(|out| facts(out));
        archive.append(metadata_record(now_ms, facts.as_doc()).as_bytes())?;
        archive.trim(folder_bytes_max.saturating_sub(file_bytes_max))?;
        self.archive = Some(archive);
        Ok(())
    }

    /// Appends the chunk to the file. It is dropped if that fails: the next samples matter more than these.
    fn end_chunk(&mut self) -> io::Result<()> {
        let record = self.chunk.record();
        self.chunk.clear();
        if let (Some(archive), Some(record)) = (&mut self.archive, record) {
            archive.append(record.as_bytes())?;
            archive.remove_interim()?;
        }
        Ok(())
    }

    /// Logs when the files cannot be written any more, and when they can again.
    fn log_change(&mut self, stored: io::Result<()>) {
        match stored {
            Ok(()) if self.failing => {
                log::info!(target: "FTDC", id = 8_200_211; "Diagnostic data can be written again");
                self.failing = false;
            }
            Err(error) if !self.failing => {
                log::warn!(target: "FTDC", id = 8_200_210, error = error.to_string();
                    "Diagnostic data cannot be written; requests are not affected");
                self.failing = true;
            }
            _ => {}
        }
    }
}
