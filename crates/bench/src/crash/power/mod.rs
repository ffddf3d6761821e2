//! A machine whose power can be cut: a disk with a volatile cache, under a real file system.
//!
//!   server --> ext3, ext4 or xfs --> loop device --> FUSE --> [`disk`]: volatile until flushed
//!
//! The file system's barriers become fsyncs of the loop device's file, and these make the disk's writes
//! durable. A power cut runs in four steps:
//!
//! 1. Some of the unflushed writes are discarded, and every later request to the disk fails.
//! 2. The server is killed.
//! 3. Everything is unmounted; data that the kernel still holds in memory fails to be written.
//! 4. Everything is mounted again: the file system replays its own journal, as after a real power cut.
//!
//! Requires root.
mod disk;
mod fuse;

use crate::args::{Outcome, Problem, failed};
use crate::random::Random;
use disk::{Armed, Disk, Loss};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "ext3"];
/// Unmounting waits at most this long for writes that fail.
const UNMOUNT_MAX: Duration = Duration::from_secs(30);
/// A cut occurs within this number of writes to the disk, or else after `WAIT_MAX`.
const WRITES_MAX: u64 = 60;
/// Only writes that find at least a random number of unflushed pages count; this is the maximum of that number.
const PAGES_MAX: u64 = 16;
const WAIT_MAX: Duration = Duration::from_secs(2);

pub(super) struct Machine {
    disk: Arc<Disk>,
    file_system: String,
    folder: PathBuf,
    /// The mount point of the file system: the data directory.
    pub(super) data: PathBuf,
    on: Option<On>,
    pub(super) sectors_lost: u64,
    pub(super) sectors_torn_cuts: u64,
    pub(super) cuts_with_loss: u64,
}

struct On {
    device: String,
    data: PathBuf,
    _mounted: fuse::Mounted,
}

impl Drop for On {
    /// Order: file system, loop device, then the fields, that is FUSE.
    fn drop(&mut self) {
        let begin = Instant::now();
        while run("umount", &[&self.data.to_string_lossy()]).is_err() {
            if begin.elapsed() > UNMOUNT_MAX {
                let _ = run("umount", &["-l", &self.data.to_string_lossy()]);
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = run("losetup", &["-d", &self.device]);
    }
}

impl Machine {
    /// Creates a disk of this size with a new file system, mounted at `folder/data`.
    pub(super) fn new(folder: &Path, file_system: &str, bytes: u64) -> Outcome<Machine> {
        let data = folder.join("data");
        for dir in [folder.join("fuse"), data.clone()] {
            fs::create_dir_all(dir).map_err(failed("creating the data directory"))?;
        }
        let image = folder.join("disk.img");
        let disk = Disk::create(&image, bytes).map_err(failed("creating the disk"))?;
        let make = format!("mkfs.{file_system}");
        let xfs = file_system == "xfs";
        let flags: &[&str] = if xfs { &["-q", "-f", "-s", "size=4096"] } else { &["-q", "-F"] };
        run(&make, &[flags, &[&*image.to_string_lossy()]].concat())?;
        let mut machine = Machine {
            disk: Arc::new(disk),
            file_system: file_system.to_owned(),
            folder: folder.to_owned(),
            data,
            on: None,
            sectors_lost: 0,
            sectors_torn_cuts: 0,
            cuts_with_loss: 0,
        };
        machine.power_on()?;
        Ok(machine)
    }

    fn power_on(&mut self) -> Outcome {
        self.disk.revive();
        let fuse = self.folder.join("fuse");
        let mounted = fuse::Mounted::new(&self.disk, &fuse)?;
        let file = fuse.join(fuse::NAME);
        let device = run("losetup", &["--show", "-f", &file.to_string_lossy()])?;
        let device = device.trim().to_owned();
        let data = self.data.to_string_lossy().into_owned();
        if let Err(problem) = run("mount", &["-t", &self.file_system, &device, &data]) {
            let _ = run("losetup", &["-d", &device]);
            return Err(problem);
        }
        self.on = Some(On { device, data: self.data.clone(), _mounted: mounted });
        Ok(())
    }

    /// Cuts the power amid one of the next writes, or after `WAIT_MAX` if there is none, and returns the time
    /// of the cut. The server must still be killed by the caller: its reads and writes fail from this time on.
    pub(super) fn cut(&mut self, random: &mut Random) -> Outcome<Instant> {
        let percent = 1 + random.below(99);
        // Torn xfs metadata within 4 KB can make the file system impossible to mount: a block whose header is
        // new is not replayed from its log. Its disk therefore has sectors of 4 KB.
        let loss = match random.below(4) {
            0 => Loss::All,
            1 => Loss::Pages(percent),
            _ if self.file_system == "xfs" => Loss::Pages(percent),
            _ => Loss::Sectors(percent),
        };
        let (writes, pages) = (1 + random.below(WRITES_MAX), random.below(PAGES_MAX) as usize);
        self.disk.arm(Armed { writes, pages, loss, random: Random::new(random.next()) });
        let begin = Instant::now();
        while self.disk.was_cut().is_none() && begin.elapsed() < WAIT_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (cut, at) = self.disk.cut(loss, random).map_err(failed("cutting the power"))?;
        self.sectors_lost += cut.sectors_lost;
        self.sectors_torn_cuts +=
            u64::from(cut.sectors_lost > 0 && cut.sectors_lost < cut.pages * 8);
        self.cuts_with_loss += u64::from(cut.sectors_lost > 0);
        Ok(at)
    }

    /// Mounts everything again after a cut, as after switching the machine on. The server must have exited.
    pub(super) fn restart(&mut self) -> Outcome {
        self.on = None;
        self.power_on()?;
        self.empty_memory();
        Ok(())
    }

    /// Removes the ring buffer of the write-ahead log. It is in shared memory, which a real power cut would
    /// clear and this simulated one does not.
    fn empty_memory(&self) {
        let name = self.data.join("rocksdb/SPOOL");
        let text = fs::read_to_string(name).unwrap_or_default();
        if let Some(ring) = text.lines().find_map(|line| line.strip_prefix("ring:")) {
            let _ = fs::remove_file(ring.trim());
        }
    }

    /// The number of flushes of the disk so far.
    pub(super) fn flush_count(&self) -> u64 {
        self.disk.flushes.load(Ordering::Relaxed)
    }
}

/// Runs a program and returns its output.
fn run(program: &str, args: &[&str]) -> Outcome<String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| Problem::Failed(format!("{program}: {e}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Problem::Failed(format!("{program} {}: {text}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
