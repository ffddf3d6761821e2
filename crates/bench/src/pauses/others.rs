//! Measures the processor time that others use: the host of a virtual machine, the kernel's own threads, other
//! processes.
//!
//! The unit is the kernel's tick, so the value of a window of a tenth of a second is accurate to a few
//! hundredths of the machine. Interrupts that run during a thread's time count as that thread's time, as in the
//! kernel's accounting.
use std::fs;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::process::ticks;

/// The width of a slot of the timeline.
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
    let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = machine.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let fields: Vec<u64> = fields.take(8).filter_map(|field| field.parse().ok()).collect();
    let [_, _, _, idle, waiting, _, _, _] = fields[..] else { return Look::default() };
    let all = fields.iter().sum();
    Look { all, used: all - idle - waiting, ours: ours.iter().filter_map(|pid| ticks(*pid)).sum() }
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
