//! Samples the cgroup, the server and the neighbour every tenth of a second.
use super::group::Group;
use crate::resident::resident_bytes;
use nagi_proc::Process;
use nagi_proc::cgroup::{Version, page_cache_bytes};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);

/// One look.
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
        let group = nagi_proc::text(&self.stat)?;
        let (faults, swapped) = of_neighbour(self.neighbour)?;
        Some(Sample {
            at: self.begin.elapsed().as_secs_f64(),
            page_cache: page_cache_bytes(self.version, &group)?,
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

/// Major faults and swapped bytes; none once the process is gone.
fn of_neighbour(process: u32) -> Option<(u64, u64)> {
    let process = Process::Id(process);
    Some((process.stat()?.major_faults, process.status()?.swapped_bytes.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_has_no_figures() {
        assert!(of_neighbour(std::process::id()).is_some());
        assert_eq!(of_neighbour(u32::MAX), None);
    }
}
