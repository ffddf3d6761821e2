//! The `FileAllocator` thread: allocates disk space for the data file ahead of need, and spare segments for the
//! log.
//!
//! It works only where the file system can allocate without writing (`fallocate` on ext4, xfs, btrfs, tmpfs).
//! Elsewhere (ext3) nothing is filled with zeroes: the data file grows as the background thread writes it, and log
//! segments are reused. Each step is logged with file, size and time, as mongod's FileAllocator did.

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

use crate::{db::Env, log::Spares};

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
        let mut can_allocate = true;
        loop {
            descriptors::keep();
            if let Err(error) = self.go(&mut can_allocate) {
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

    fn go(&self, can_allocate: &mut bool) -> Result<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.path)?;
        let bytes = file.metadata()?.len();
        let used = self.env.info()?.used_bytes;
        self.file_bytes.store(bytes, Relaxed);
        self.ahead.store(bytes.saturating_sub(used), Relaxed);
        if !*can_allocate {
            return Ok(());
        }
        if let Some(step) = self.step(bytes, used) {
            *can_allocate = self.grow(&file, &self.path, bytes, step)?;
            self.file_bytes.store(bytes + step, Relaxed);
            self.ahead.store((bytes + step).saturating_sub(used), Relaxed);
        }
        if *can_allocate && self.steps.is_some() && self.spares.count() == 0 {
            *can_allocate = self.make_spare()?;
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

    /// Allocates `step` bytes at `from`. Returns false if this file system cannot allocate without writing.
    fn grow(&self, file: &fs::File, path: &Path, from: u64, step: u64) -> Result<bool> {
        let name = path.display().to_string();
        let size = step / MIB;
        log::info!(target: "STORAGE", id = 7_703_004, file = name, sizeMB = size;
            "FileAllocator: allocating ahead");
        let start = Instant::now();
        match fallocate(file, FallocateFlags::empty(), from, step) {
            Ok(()) => {
                let seconds = start.elapsed().as_secs_f64();
                log::info!(target: "STORAGE", id = 7_703_005, file = name, sizeMB = size,
                    seconds = seconds; "FileAllocator: done allocating");
                Ok(true)
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                log::info!(target: "STORAGE", id = 7_703_006, file = name;
                    "FileAllocator: this file system has no fallocate; files grow as they are written");
                Ok(false)
            }
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    fn make_spare(&self) -> Result<bool> {
        let path = self.spares.unfinished();
        let file = fs::File::create(&path)?;
        let made = self.grow(&file, &path, 0, self.segment_bytes.max(STEP_BYTES_MIN))?;
        match made {
            true => self.spares.add(&path)?,
            false => fs::remove_file(&path)?,
        }
        Ok(made)
    }
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
