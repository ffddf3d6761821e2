//! Ends the process in order when a mapped file cannot be read any more.
//!
//! LMDB reads its file through a memory map and trusts its contents. If the file has become shorter, if the disk
//! cannot read a page, or if a page was overwritten and points far beyond the end of the file, the operating system
//! raises SIGBUS or SIGSEGV where a read would return an error. LMDB cannot recover from that, and the data file is
//! damaged. So the faulting thread pauses forever, and another thread logs the file and the offset and ends the
//! process with exit code 14, as for other damage. The log is as durable as at any other moment.
//!
//! ```text
//!   thread in LMDB  --signal-->  handler: is the address in one of our maps?
//!                                  no:  handled as if this handler did not exist
//!                                  yes: message (map, offset) --socket-->  thread "DamagedMap": log, exit code 14
//! ```

mod raw;

use std::{
    fs,
    io::Read,
    os::{
        fd::IntoRawFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
    path::Path,
    sync::OnceLock,
};

use nagi_kv_disk::fatal;
use nagi_proc::maps;
use parking_lot::Mutex;

/// The map of a file, registered with the signal handler until this is dropped.
pub(super) struct Watched(Option<usize>);

/// The file of each entry in the table of maps.
static NAMES: Mutex<[String; raw::MAPS_MAX]> = Mutex::new([const { String::new() }; raw::MAPS_MAX]);

impl Watched {
    /// Registers the file's newest map. If the system's list of maps cannot be read, or the table is full, nothing
    /// is watched.
    pub(super) fn new(path: &Path) -> Watched {
        static READY: OnceLock<bool> = OnceLock::new();
        let map = READY.get_or_init(start).then(|| map_of(path)).flatten();
        let Some((start, end)) = map else { return Watched(None) };
        let mut names = NAMES.lock();
        let place = raw::watch(start, end);
        if let Some(place) = place {
            names[place] = path.display().to_string();
        }
        Watched(place)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            raw::forget(place);
        }
    }
}

/// Starts the thread that ends the process, then installs the handlers. Returns false if that is not possible.
fn start() -> bool {
    let Ok((notes, sender)) = UnixStream::pair() else { return false };
    let thread = std::thread::Builder::new().name("DamagedMap".to_owned());
    thread.spawn(move || wait(notes)).is_ok() && raw::take_signals(sender.into_raw_fd())
}

fn wait(mut notes: UnixStream) {
    let mut note = [0; raw::NOTE_BYTES];
    if notes.read_exact(&mut note).is_err() {
        return;
    }
    let (place, offset) = raw::parse(&note);
    let name = NAMES.lock().get(place).cloned().unwrap_or_default();
    fatal::end_damaged(&name, offset);
}

/// The address range of a file's map that is not registered yet.
fn map_of(path: &Path) -> Option<(usize, usize)> {
    let inode = fs::metadata(path).ok()?.ino();
    let is_it = |map: &maps::Map| map.inode == inode && map.offset == 0;
    maps::own()
        .into_iter()
        .filter(is_it)
        .map(|map| (map.start, map.end))
        .find(|(start, _)| !raw::is_watched(*start))
}
