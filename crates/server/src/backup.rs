//! Backups of a running server: a client copies a consistent set of files piece by piece.
//!
//! 1. `begin` makes a checkpoint in a folder beside the data, with hard links where the engine supports them.
//! 2. `read` returns the bytes of its files.
//! 3. `end` removes the checkpoint and its folder.
//!
//! Until then, files that the server no longer needs keep their disk space. A backup that has been idle for
//! [`IDLE_MS_MAX`] is therefore removed. At most one backup is open at a time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nagi_error::{Code, Error, Result, bail, err};
use nagi_store::Store;
use parking_lot::Mutex;

use crate::clock;

const FOLDER: &str = "nagi.backup";
const IDLE_MS_MAX: i64 = 10 * 60 * 1000;
/// The maximum number of listed files: the list is one reply.
const FILE_COUNT_MAX: usize = 100_000;
/// The maximum number of bytes of one `read`.
pub(crate) const READ_BYTES_MAX: usize = 8 << 20;

/// A file of a backup.
pub(crate) struct BackupFile {
    /// The path relative to the data directory, with `/`.
    pub(crate) name: String,
    pub(crate) byte_count: u64,
}

struct Open {
    id: String,
    folder: PathBuf,
    files: Vec<BackupFile>,
    /// The positions of files whose last byte has been read.
    read: BTreeSet<usize>,
    begun_ms: i64,
    used_ms: i64,
}

/// A backup whose files were all read.
pub(crate) struct Complete {
    pub(crate) begun_ms: i64,
    pub(crate) file_count: usize,
    pub(crate) byte_count: u64,
}

impl Open {
    fn complete(&self) -> Option<Complete> {
        // Files without bytes are not read.
        let is_read =
            |(at, file): (usize, &BackupFile)| file.byte_count == 0 || self.read.contains(&at);
        self.files.iter().enumerate().all(is_read).then(|| Complete {
            begun_ms: self.begun_ms,
            file_count: self.files.len(),
            byte_count: self.files.iter().map(|file| file.byte_count).sum(),
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            log::warn!(target: "STORAGE", id = 9_000_041, error = error.to_string(),
                folder = self.folder.display().to_string(); "A backup's files cannot be removed");
        }
    }
}

/// The newest complete backup.
#[derive(Clone, Copy)]
struct Newest {
    /// Milliseconds since 1970.
    ended_ms: i64,
    /// When the server learned of it, and its age then.
    noted: Instant,
    age_ms: i64,
}

impl Newest {
    /// Its age. The clock of dates may be set back, and must not keep the age from growing; the other clock stands
    /// still while the machine is suspended.
    fn age_ms(&self, now_ms: i64) -> i64 {
        let since_ms = i64::try_from(clock::micros_since(self.noted) / 1000).unwrap_or(i64::MAX);
        now_ms.saturating_sub(self.ended_ms).max(self.age_ms.saturating_add(since_ms))
    }
}

#[derive(Default)]
struct State {
    /// The folder of backups beside the data; `None` if the engine has no files.
    folder: Option<PathBuf>,
    /// A file of the data directory that a copy needs and the engine does not know: that of the encryption keys.
    included: Option<&'static str>,
    /// A checkpoint is being made.
    beginning: bool,
    open: Option<Open>,
}

/// The open backup, if there is one.
#[derive(Default)]
pub(crate) struct Backups {
    state: Mutex<State>,
    /// The newest complete one.
    newest: Mutex<Option<Newest>>,
    /// Held while files are made or removed, so that no backup removes the folder that the next one has just created.
    files: Mutex<()>,
}

impl Backups {
    /// Sets the data directory and removes the remains of a backup of an earlier run.
    pub(crate) fn set_data_folder(&self, data: &Path) -> io::Result<()> {
        let folder = data.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.state.lock().folder = Some(folder);
        Ok(())
    }

    /// Adds a file of the data directory to all backups.
    pub(crate) fn include(&self, name: &'static str) {
        self.state.lock().included = Some(name);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().open.is_some()
    }

    /// Makes a checkpoint and calls `list` with its id and files.
    pub(crate) fn begin(
        &self,
        store: &Store,
        list: &mut dyn FnMut(&str, &[BackupFile]),
    ) -> Result<()> {
        let (parent, included) = {
            let mut state = self.state.lock();
            let Some(folder) = state.folder.clone() else {
                bail!(
                    Code::COMMAND_NOT_SUPPORTED,
                    "the storage engine has no files to back up; use mongodump"
                );
            };
            if state.open.is_some() || state.beginning {
                bail!(
                    Code::CONFLICTING_OPERATION_IN_PROGRESS,
                    "another backup is in progress; stop its nagi backup, or wait until it has been \
                     idle for ten minutes"
                );
            }
            state.beginning = true;
            (folder, state.included)
        };
        let made = {
            let _making = self.files.lock();
            make(store, &parent, included).inspect_err(|_| remove_empty(&parent))
        };
        let mut state = self.state.lock();
        state.beginning = false;
        let open = made?;
        list(&open.id, &open.files);
        log::info!(target: "STORAGE", id = 9_000_040, backupId = open.id.as_str(),
            files = open.files.len(); "Backup begun");
        state.open = Some(open);
        Ok(())
    }

    /// Reads up to `length` bytes of a file, starting at `offset`.
    pub(crate) fn read(&self, id: &str, file: &str, offset: u64, length: usize) -> Result<Vec<u8>> {
        let (path, byte_count) = {
            let mut state = self.state.lock();
            let open = find(&mut state, id)?;
            open.used_ms = clock::wall_ms();
            // Only listed names are accepted, so no file outside the checkpoint can be read.
            let Some(at) = open.files.iter().position(|known| known.name == file) else {
                bail!(Code::NO_SUCH_KEY, "the backup has no file '{file}'");
            };
            let found = &open.files[at];
            if offset.saturating_add(length.min(READ_BYTES_MAX) as u64) >= found.byte_count {
                open.read.insert(at);
            }
            (open.folder.join(&found.name), found.byte_count)
        };
        let left = byte_count.saturating_sub(offset);
        let length = length.min(READ_BYTES_MAX).min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut bytes = vec![0; length];
        let from = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, offset));
        from.map_err(|error| failed(&path, &error))?;
        Ok(bytes)
    }

    /// Removes the files of a backup. Returns what it had if its client has read all files to their ends.
    pub(crate) fn end(&self, id: &str) -> Result<Option<Complete>> {
        let open = {
            let mut state = self.state.lock();
            find(&mut state, id)?;
            state.open.take()
        };
        let complete = open.as_ref().and_then(Open::complete);
        self.remove(open);
        log::info!(target: "STORAGE", id = 9_000_042, backupId = id, complete = complete.is_some();
            "Backup ended");
        Ok(complete)
    }

    /// When the newest complete backup ended, in milliseconds since 1970, and its age in milliseconds.
    pub(crate) fn newest(&self) -> Option<(i64, i64)> {
        let newest = *self.newest.lock();
        newest.map(|newest| (newest.ended_ms, newest.age_ms(clock::wall_ms())))
    }

    pub(crate) fn note_newest(&self, ended_ms: i64) {
        let age_ms = clock::wall_ms().saturating_sub(ended_ms).max(0);
        let noted = clock::now();
        *self.newest.lock() = Some(Newest { ended_ms, noted, age_ms });
    }

    /// Ends a backup that has not been read from for too long.
    pub(crate) fn expire(&self, now_ms: i64) {
        let idle = |open: &mut Open| now_ms - open.used_ms > IDLE_MS_MAX;
        let expired = self.state.lock().open.take_if(idle);
        if let Some(open) = &expired {
            log::warn!(target: "STORAGE", id = 9_000_043, backupId = open.id.as_str();
                "Backup cancelled: its client has sent no request for ten minutes");
        }
        self.remove(expired);
    }

    /// Ends the backup when the server stops.
    pub(crate) fn close(&self) {
        let open = self.state.lock().open.take();
        self.remove(open);
    }

    /// Removes the files of a backup, and the folder of backups.
    fn remove(&self, open: Option<Open>) {
        let Some(open) = open else { return };
        let _removing = self.files.lock();
        let parent = open.folder.parent().map(Path::to_owned);
        drop(open);
        if let Some(parent) = parent {
            remove_empty(&parent);
        }
    }
}

/// Removes the folder of backups if nothing is in it.
fn remove_empty(parent: &Path) {
    // Files that could not be removed have been reported; the next start removes them.
    let _ = fs::remove_dir(parent);
}

fn find<'s>(state: &'s mut State, id: &str) -> Result<&'s mut Open> {
    let open = state.open.as_mut().filter(|open| open.id == id);
    open.ok_or_else(|| {
        err!(
            Code::NO_SUCH_KEY,
            "there is no backup '{id}': it was finished, cancelled or has \
                                 expired"
        )
    })
}

fn make(store: &Store, parent: &Path, included: Option<&str>) -> Result<Open> {
    fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
    let id = nagi_bson::text::Hex(&crate::random::random_bytes()?[..8]).to_string();
    let folder = parent.join(&id);
    // A checkpoint that fails may leave files.
    let now_ms = clock::wall_ms();
    let (files, read) = (Vec::new(), BTreeSet::new());
    let mut open = Open { id, folder, files, read, begun_ms: now_ms, used_ms: now_ms };
    store.checkpoint(&open.folder)?;
    if let Some(name) = included {
        // Afterwards: it only grows, so it fits the files of a checkpoint that was made before.
        let from = parent.with_file_name(name);
        fs::copy(&from, open.folder.join(name)).map_err(|error| failed(&from, &error))?;
    }
    list_files(&open.folder, "", &mut open.files).map_err(|error| failed(&open.folder, &error))?;
    if open.files.len() > FILE_COUNT_MAX {
        bail!(Code::INTERNAL_ERROR, "the data has more than {FILE_COUNT_MAX} files");
    }
    open.files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(open)
}

fn list_files(folder: &Path, prefix: &str, files: &mut Vec<BackupFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata()?;
        match metadata.is_dir() {
            true => list_files(&entry.path(), &format!("{name}/"), files)?,
            false => files.push(BackupFile { name, byte_count: metadata.len() }),
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> Error {
    err!(Code::INTERNAL_ERROR, "backup: {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_the_age() {
        let noted = clock::now().checked_sub(Duration::from_secs(7200)).unwrap();
        let newest = Newest { ended_ms: 10_000_000, noted, age_ms: 1000 };
        // The clock went back by a day, then it counts again, then the machine was suspended.
        assert!((7_201_000..7_300_000).contains(&newest.age_ms(10_000_000 - 86_400_000)));
        assert!((7_201_000..7_300_000).contains(&newest.age_ms(10_000_000)));
        assert_eq!(newest.age_ms(10_000_000 + 86_400_000), 86_400_000);
    }
}
