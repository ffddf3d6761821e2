//! Resident memory of a process, looked at each tenth of a second.
use nagi_proc::Process;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);

/// Samples until it is stopped or dropped.
pub(crate) struct Resident {
    samples: Arc<Mutex<Vec<(f64, u64)>>>,
    stop: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Resident {
    pub(crate) fn watch(process: u32) -> Resident {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = mpsc::channel();
        let (begin, into) = (Instant::now(), Arc::clone(&samples));
        let thread = thread::spawn(move || {
            while let Some(bytes) = resident_bytes(process) {
                let sample = (begin.elapsed().as_secs_f64(), bytes);
                into.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
                if stopped.recv_timeout(EVERY) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Resident { samples, stop: Some((stop, thread)) }
    }

    /// Stops, and returns pairs of seconds since the beginning and bytes.
    pub(crate) fn finish(mut self) -> Vec<(f64, u64)> {
        self.end();
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        if let Some((stop, thread)) = self.stop.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.end();
    }
}

/// The greatest sample.
pub(crate) fn peak(samples: &[(f64, u64)]) -> u64 {
    samples.iter().map(|sample| sample.1).max().unwrap_or(0)
}

/// `VmRSS`; none once the process is gone.
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    Process::Id(process).status()?.resident_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_somewhere_in_memory() {
        let samples = Resident::watch(std::process::id()).finish();
        assert!(!samples.is_empty() && peak(&samples) > 100_000);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
