//! Samples the cgroup, the server and the neighbour every tenth of a second.
use super::group::Group;
use crate::resident::resident_bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);

/// The version of the cgroup hierarchy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Version {
    One,
    Two,
}

/// One sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the run began.
    pub(super) at: f64,
    /// Page cache of the whole cgroup, bytes.
    pub(super) page_cache: u64,
    /// Resident memory of the server, bytes; zero while no server runs.
    pub(super) server: u64,
    /// Major faults of the neighbour since it began.
    pub(super) faults: u64,
    /// Swapped part of the neighbour's memory, bytes.
    pub(super) swapped: u64,
}

/// The processes and files that are sampled.
#[derive(Clone)]
struct Scene {
    begin: Instant,
    version: Version,
    stat: PathBuf,
    neighbour: u32,
    server: u32,
}

impl Scene {
    fn look(&self) -> Option<Sample> {
        let group = fs::read_to_string(&self.stat).ok()?;
        let (faults, swapped) = of_neighbour(self.neighbour)?;
        Some(Sample {
            at: self.begin.elapsed().as_secs_f64(),
            page_cache: page_cache(self.version, &group)?,
            server: resident_bytes(self.server).unwrap_or(0),
            faults,
            swapped,
        })
    }
}

/// Samples until it is finished or dropped.
pub(super) struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Watch {
    pub(super) fn start(begin: Instant, group: &Group, server: u32) -> Watch {
        let scene = Scene {
            begin,
            version: group.version,
            stat: group.folder.join("memory.stat"),
            neighbour: group.neighbour,
            server,
        };
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            loop {
                // A last sample is taken after the stop, so that work shorter than a tenth of a second has two
                // samples too.
                let last = stopped.recv_timeout(match samples.is_empty() {
                    true => Duration::ZERO,
                    false => EVERY,
                }) == Err(mpsc::RecvTimeoutError::Disconnected);
                match scene.look() {
                    Some(sample) => samples.push(sample),
                    None => return samples,
                }
                if last {
                    return samples;
                }
            }
        });
        Watch { stop, thread }
    }

    pub(super) fn finish(self) -> Vec<Sample> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Bytes of files in memory, without shared memory, which cannot be dropped any more than a heap can.
pub(super) fn page_cache(version: Version, stat: &str) -> Option<u64> {
    let field = |name: &str| {
        stat.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok())
    };
    let files = match version {
        Version::One => field("cache"),
        Version::Two => field("file"),
    };
    Some(files?.saturating_sub(field("shmem").unwrap_or(0)))
}

/// Major faults of a process, from `/proc/PID/stat`.
pub(super) fn major_faults(stat: &str) -> Option<u64> {
    // The name is in parentheses and may contain any character, including a parenthesis.
    stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().nth(9)?.parse().ok()
}

/// Swapped bytes, from `/proc/PID/status`; a kernel without swap has no such line.
pub(super) fn swapped_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// Bytes that a process has read from disks so far, from `/proc/PID/io`.
pub(super) fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok())
}

fn of_neighbour(process: u32) -> Option<(u64, u64)> {
    let folder = Path::new("/proc").join(process.to_string());
    let faults = major_faults(&fs::read_to_string(folder.join("stat")).ok()?)?;
    Some((faults, swapped_bytes(&fs::read_to_string(folder.join("status")).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_cache_of_both_versions() {
        let one = "cache 64921600\nrss 6975488\nrss_huge 0\nshmem 9068544\ntotal_cache 325389\n";
        assert_eq!(page_cache(Version::One, one), Some(55_853_056));
        let two = "anon 1\nfile 5000\nkernel 7\nshmem 1000\nfile_mapped 3\nfile_dirty 4\n";
        assert_eq!(page_cache(Version::Two, two), Some(4000));
        assert_eq!(page_cache(Version::One, "total_cache 5\n"), None);
        assert_eq!(page_cache(Version::Two, "file x\n"), None);
        assert_eq!(page_cache(Version::One, "cache 5\n"), Some(5));
    }

    #[test]
    fn faults_come_after_any_name() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 99 10 11 12 13\n";
        assert_eq!(major_faults(stat), Some(99));
        assert_eq!(major_faults("12 (a) S 1 2"), None);
        assert_eq!(major_faults(""), None);
        assert!(of_neighbour(std::process::id()).is_some());
        assert_eq!(of_neighbour(u32::MAX), None);
    }

    #[test]
    fn swapped_and_read_bytes() {
        assert_eq!(swapped_bytes("VmRSS:\t 10 kB\nVmSwap:\t      12 kB\n"), 12_288);
        assert_eq!(swapped_bytes("VmRSS:\t 10 kB\n"), 0);
        assert_eq!(read_bytes("rchar: 1\nread_bytes: 4096\n"), Some(4096));
        assert_eq!(read_bytes("rchar: 1\n"), None);
    }
}
