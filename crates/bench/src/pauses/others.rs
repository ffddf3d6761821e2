//! Measures the processor time that others use: the host of a virtual machine, the kernel's own threads, other
//! processes.
//!
//! In ticks of the kernel, so a window of a tenth of a second is known to a few hundredths of the machine.
//! Interrupts that run in a thread's time count as that thread's, as the kernel has it.
use nagi_proc::{Process, stat};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// As wide as a slot of the timeline.
const WINDOW: Duration = Duration::from_millis(100);

/// Takes a sample at the end of each window until it is finished.
pub(crate) struct Others {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<f64>>,
}

impl Others {
    /// Measures all processes but this one and `server`, in windows from `begin` on.
    pub(crate) fn watch(begin: Instant, server: Option<u32>) -> Others {
        let (stop, stopped) = mpsc::channel();
        let ours: Vec<u32> = server.into_iter().chain([std::process::id()]).collect();
        let thread = thread::spawn(move || {
            let mut shares = Vec::new();
            let mut before = look(&ours);
            for window in 1_u32.. {
                let wait = (begin + WINDOW * window).saturating_duration_since(Instant::now());
                if stopped.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout) {
                    break;
                }
                let now = look(&ours);
                shares.push(share(before, now));
                before = now;
            }
            shares
        });
        Others { stop, thread }
    }

    /// For each window, the share of the machine that others used.
    pub(crate) fn finish(self) -> Vec<f64> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Ticks since the machine was started.
#[derive(Clone, Copy, Default)]
struct Look {
    /// All ticks, including idle time.
    all: u64,
    /// Ticks in which any code ran, or in which the host ran something else.
    used: u64,
    ours: u64,
}

fn look(ours: &[u32]) -> Look {
    let Some(machine) = stat::machine() else { return Look::default() };
    let ticks = |pid: &u32| Some(Process::Id(*pid).stat()?.ticks());
    Look { all: machine.all, used: machine.used, ours: ours.iter().filter_map(ticks).sum() }
}

fn share(before: Look, now: Look) -> f64 {
    let all = now.all.saturating_sub(before.all);
    let used = now.used.saturating_sub(before.used);
    used.saturating_sub(now.ours.saturating_sub(before.ours)) as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_had_is_what_was_used_and_not_ours() {
        let before = Look { all: 100, used: 50, ours: 20 };
        let now = Look { all: 120, used: 68, ours: 30 };
        assert!((share(before, now) - 0.4).abs() < 1e-9);
        assert!(share(now, before).abs() < 1e-9);
        assert!(look(&[std::process::id()]).all > 0);
    }
}
