//! A short disk test: measures in a few seconds what `fio` with psync measures.
//!
//! It uses one file of at most 64 MB in the data directory, without a name (`O_TMPFILE`, or else unlinked at
//! once), so that the file disappears however the process terminates. Every step has a limit of operations and
//! a time limit.
//!
//!   allocation   fallocate of 16 and 64 MB; if not supported, zeroes are written and synced
//!   reads        random, direct, one at a time: 4, 8, 16, 32 KB
//!   writes       the same, without a sync
//!   syncs        4 KB appended after the last and fdatasync, as a log does

mod allocate;
mod disk;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

const FILE_BYTES_MAX: u64 = 64 << 20;
const FILE_BYTES_MIN: u64 = 4 << 20;
/// The file may use one part in this many of the free space.
const FREE_PART: u64 = 16;

/// The results of the test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Size of the test's file.
    pub file_bytes: u64,
    /// Results of reserving space.
    pub allocation: Option<Allocation>,
    /// True if the file system supports direct I/O; reads and writes are measured only then.
    pub has_direct_io: bool,
    /// Reads and writes by size.
    pub blocks: Vec<BlockFigures>,
    /// A small write and `fdatasync`.
    pub sync: Option<Latencies>,
    /// The reason figures are missing.
    pub problem: Option<String>,
}

/// Results of reserving space.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Allocation {
    /// True if `fallocate` is supported; otherwise the times are those of writing zeroes.
    pub is_supported: bool,
    /// Pairs of bytes and microseconds.
    pub steps: Vec<(u64, f64)>,
}

/// Random reads and writes of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockFigures {
    /// Bytes per request.
    pub bytes: u64,
    /// Reads.
    pub read: Latencies,
    /// Writes.
    pub write: Latencies,
}

/// Latencies of operations that run one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latencies {
    /// Number of operations.
    pub count: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// Operations per second.
    pub per_second: f64,
}

impl Latencies {
    /// Computes the figures from the nanoseconds of each operation.
    fn of(mut nanos: Vec<u64>) -> Option<Latencies> {
        nanos.sort_unstable();
        let sum: u64 = nanos.iter().sum();
        let at = |part: f64| {
            let index = ((nanos.len() as f64 * part).ceil() as usize).max(1) - 1;
            nanos.get(index).map(|n| *n as f64 / 1000.0)
        };
        Some(Latencies {
            count: nanos.len() as u64,
            p50_us: at(0.5)?,
            p99_us: at(0.99)?,
            per_second: nanos.len() as f64 * 1e9 / sum.max(1) as f64,
        })
    }
}

/// Tests the disk below `folder`, which has `available_bytes` left. Takes three to six seconds and writes at
/// most 130 MB. Never fails: an error is recorded in `problem`.
pub(crate) fn measure(folder: &Path, available_bytes: u64) -> Measured {
    // Rounded to whole megabytes, because direct I/O requires aligned offsets.
    let file_bytes = (available_bytes / FREE_PART).min(FILE_BYTES_MAX) >> 20 << 20;
    let mut measured = Measured { file_bytes, ..Measured::default() };
    if file_bytes < FILE_BYTES_MIN {
        measured.problem = Some("too little free space for a test of the disk".into());
        return measured;
    }
    if let Err(error) = fill_in(folder, &mut measured) {
        measured.problem = Some(format!("the test of the disk stopped early: {error}"));
    }
    measured
}

fn fill_in(folder: &Path, measured: &mut Measured) -> io::Result<()> {
    let file = nameless(folder)?;
    measured.allocation = Some(allocate::measure(&file, measured.file_bytes)?);
    match rustix::fs::fcntl_setfl(&file, OFlags::DIRECT) {
        Ok(()) => {}
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let mut disk = match disk::Disk::fill(&file, measured.file_bytes) {
        Ok(disk) => disk,
        // Some file systems accept the flag and refuse the first read or write.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(()),
        Err(error) => return Err(error),
    };
    measured.has_direct_io = true;
    for bytes in disk::SIZES {
        let write = disk.writes(bytes)?;
        let read = disk.reads(bytes)?;
        if let (Some(read), Some(write)) = (read, write) {
            measured.blocks.push(BlockFigures { bytes: bytes as u64, read, write });
        }
    }
    measured.sync = disk.syncs()?;
    Ok(())
}

/// Creates a file without a name, which the system removes when it is closed.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let unnamed = options.clone().custom_flags(OFlags::TMPFILE.bits() as i32).open(folder);
    if unnamed.is_ok() {
        return unnamed;
    }
    let path = folder.join(format!(".nagi-doctor-{}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let figures = Latencies::of((1..=100).map(|n| n * 1000).collect()).unwrap();
        assert_eq!((figures.count, figures.p50_us, figures.p99_us), (100, 50.0, 99.0));
        assert!((figures.per_second - 1e6 / 50.5).abs() < 1e-6);
        assert_eq!(Latencies::of(Vec::new()), None);
    }

    #[test]
    fn a_test_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("nagi-doctor-disk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let measured = measure(&folder, 64 << 20);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(measured.problem, None);
        assert_eq!(measured.file_bytes, 4 << 20);
        assert!(measured.allocation.is_some());
        let figures = if measured.has_direct_io { disk::SIZES.len() } else { 0 };
        assert_eq!(measured.blocks.len(), figures, "{measured:?}");
        let none = measure(&folder, 1 << 20);
        assert!(none.allocation.is_none() && none.problem.is_some());
    }
}
