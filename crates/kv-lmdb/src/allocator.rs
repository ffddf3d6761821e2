//! The `FileAllocator` thread: allocates disk space for the data file ahead of need, and spare segments for the
//! log.
//!
//! Where the file system can allocate without writing (`fallocate` on ext4, xfs, btrfs, tmpfs), a step takes
//! microseconds. Elsewhere (ext3) the thread writes zeroes behind the end of the file (`zeroes.rs`), slowly enough that
//! clients do not notice it; no operation waits for it, and if writes outrun it, the file grows as it is written. Each
//! step is logged with file, size and time, in the words of mongod's FileAllocator.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_kv::Result;
use nagi_kv_disk::{capacity, descriptors};
use parking_lot::{Condvar, Mutex};
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use crate::{db::Env, log::Spares, zeroes};

const LOOK_EACH: Duration = Duration::from_secs(5);
const MIB: u64 = 1 << 20;
/// A smaller step is not worth its cost.
const STEP_BYTES_MIN: u64 = 4 * MIB;

#[derive(Default)]
struct State {
    wanted: bool,
    stopped: bool,
}

/// See the module's header.
pub(crate) struct Allocator {
    path: PathBuf,
    env: Arc<Env>,
    spares: Arc<Spares>,
    segment_bytes: u64,
    steps: Option<(u64, u64)>,
    /// Allocated bytes of the file beyond its last used page.
    ahead: AtomicU64,
    file_bytes: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
}

impl Allocator {
    /// `steps`: the smallest and the largest growth step of the data file; none if it does not grow ahead of need.
    pub(crate) fn new(
        path: &Path,
        env: &Arc<Env>,
        spares: &Arc<Spares>,
        segment_bytes: u64,
        steps: Option<(u64, u64)>,
    ) -> Allocator {
        Allocator {
            path: path.to_owned(),
            env: Arc::clone(env),
            spares: Arc::clone(spares),
            segment_bytes,
            steps,
            ahead: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Wakes the thread after a write, so that it checks whether enough space is allocated ahead.
    pub(crate) fn look(&self) {
        self.state.lock().wanted = true;
        self.wake.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Bytes that are allocated to the file and not used yet.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.ahead.load(Relaxed)
    }

    /// Size of the file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Relaxed)
    }

    fn run(&self) {
        let mut how = How::Reserve;
        loop {
            descriptors::keep();
            if let Err(error) = self.go(&mut how) {
                log::warn!(target: "STORAGE", id = 7_703_003, error:% = error;
                    "FileAllocator: cannot allocate ahead");
            }
            let mut state = self.state.lock();
            while !state.wanted && !state.stopped {
                if self.wake.wait_for(&mut state, LOOK_EACH).timed_out() {
                    break;
                }
            }
            if state.stopped {
                return;
            }
            state.wanted = false;
        }
    }

    /// Waits; returns false if the thread is to end.
    fn rest(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.wake.wait_for(&mut state, pause);
        }
        !state.stopped
    }

    fn go(&self, how: &mut How) -> Result<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.path)?;
        let bytes = file.metadata()?.len();
        let used = self.env.info()?.used_bytes;
        self.file_bytes.store(bytes, Relaxed);
        self.ahead.store(bytes.saturating_sub(used), Relaxed);
        if let Some(step) = self.step(bytes, used) {
            self.grow_data(&file, bytes, step, how)?;
            let bytes = file.metadata()?.len();
            let used = self.env.info()?.used_bytes;
            self.file_bytes.store(bytes, Relaxed);
            self.ahead.store(bytes.saturating_sub(used), Relaxed);
        }
        if self.steps.is_some() && self.spares.count() == 0 {
            self.make_spare(how)?;
        }
        Ok(())
    }

    /// The number of bytes by which the file should grow, if any. Steps double from the smallest to the largest;
    /// the next one is due when less than a quarter of a step is left.
    fn step(&self, bytes: u64, used: u64) -> Option<u64> {
        let (least, most) = self.steps?;
        let step = next_step(bytes, least, most);
        if used + step / 4 < bytes {
            return None;
        }
        let (free, _) = capacity::space(self.path.parent()?)?;
        // The file takes at most an eighth of the free disk space ahead of need.
        let step = step.min(free / 8 / MIB * MIB);
        (step >= STEP_BYTES_MIN).then_some(step)
    }

    /// Enlarges the data file by `step` bytes.
    fn grow_data(&self, file: &fs::File, from: u64, step: u64, how: &mut How) -> Result<()> {
        let name = self.path.display().to_string();
        let start = Instant::now();
        if *how == How::Reserve {
            say_begin("datafile", &name, step, How::Reserve);
            *how = reserve(file, &name, from, step)?;
        }
        if *how == How::Zeroes {
            say_begin("datafile", &name, step, How::Zeroes);
            // Pages are written within write transactions only. So while there is none, everything behind the end of
            // the file is unused.
            let mut pause = |duration| self.rest(duration);
            let lock = || self.env.write();
            if !zeroes::append(&self.path, step, lock, &mut pause)? {
                return Ok(());
            }
        }
        say_done("datafile", &name, step, start, *how);
        Ok(())
    }

    /// Makes a spare segment of the log.
    fn make_spare(&self, how: &mut How) -> Result<()> {
        let path = self.spares.unfinished();
        let bytes = self.segment_bytes.max(STEP_BYTES_MIN);
        let file = fs::File::create(&path)?;
        let name = self.spares.next_path().display().to_string();
        let start = Instant::now();
        if *how == How::Reserve {
            say_begin("journal file", &name, bytes, How::Reserve);
            *how = reserve(&file, &name, 0, bytes)?;
        }
        if *how == How::Zeroes {
            say_begin("journal file", &name, bytes, How::Zeroes);
            let mut pause = |duration| self.rest(duration);
            if !zeroes::append(&path, bytes, || Ok(()), &mut pause)? {
                return Ok(fs::remove_file(&path)?);
            }
        }
        self.spares.add(&path)?;
        say_done("journal file", &name, bytes, start, *how);
        Ok(())
    }
}

/// How space is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// The file system reserves blocks without writing them.
    Reserve,
    /// Zeroes are written.
    Zeroes,
}

impl How {
    fn text(self) -> &'static str {
        match self {
            How::Reserve => "reserving blocks with fallocate",
            How::Zeroes => "filling with zeroes",
        }
    }
}

/// Reserves blocks; returns how to allocate from now on: this file system may not be able to reserve them.
fn reserve(file: &fs::File, name: &str, from: u64, bytes: u64) -> Result<How> {
    match fallocate(file, FallocateFlags::empty(), from, bytes) {
        Ok(()) => Ok(How::Reserve),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            log::info!(target: "STORAGE", id = 7_703_006, file = name;
                "FileAllocator: this file system has no fallocate; files are filled with zeroes in the background");
            Ok(How::Zeroes)
        }
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// The lines that operators of MongoDB 2 know from its log (`grep "done all"`), with the same figures as attributes.
fn say_begin(kind: &str, name: &str, bytes: u64, how: How) {
    log::info!(target: "STORAGE", id = 7_703_004, file = name, sizeMB = bytes / MIB;
        "allocating {kind} {name}, {}...", how.text());
}

fn say_done(kind: &str, name: &str, bytes: u64, start: Instant, how: How) {
    let seconds = start.elapsed().as_secs_f64();
    let rounded = (seconds * 1000.0).round() / 1000.0;
    let size = bytes / MIB;
    log::info!(target: "STORAGE", id = 7_703_005, file = name, sizeMB = size, seconds = seconds, method = how.text();
        "done allocating {kind} {name}, size: {size}MB,  took {rounded} secs");
}

/// The next of the steps 64, 128, 256 ... MB for a file that has grown by such steps so far.
fn next_step(bytes: u64, least: u64, most: u64) -> u64 {
    let mut step = least;
    let mut total = 0;
    while step < most && total + step <= bytes {
        total += step;
        step *= 2;
    }
    step.min(most)
}

/// Starts the thread.
pub(crate) fn start(allocator: &Arc<Allocator>) -> Result<JoinHandle<()>> {
    let allocator = Arc::clone(allocator);
    let thread = std::thread::Builder::new().name("FileAllocator".to_owned());
    Ok(thread.spawn(move || allocator.run())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_double_up_to_the_largest() {
        let mut bytes = 0;
        let steps = [0; 8].map(|_| {
            let step = next_step(bytes, 64 * MIB, 2048 * MIB);
            bytes += step;
            step / MIB
        });
        assert_eq!(steps, [64, 128, 256, 512, 1024, 2048, 2048, 2048]);
        assert_eq!(next_step(12_345, 16 * MIB, 512 * MIB) / MIB, 16);
    }
}
