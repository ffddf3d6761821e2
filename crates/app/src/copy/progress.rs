//! What the command has done, for lines on standard error.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts of all threads.
pub(super) struct Progress {
    pub(super) documents: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) changes: AtomicU64,
    /// The documents of the source when the base copy began, by its counts.
    pub(super) expected: AtomicU64,
    last: Mutex<Line>,
}

/// The counts of the last line.
struct Line {
    at: Instant,
    documents: u64,
    bytes: u64,
    changes: u64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let last = Line { at: Instant::now(), documents: 0, bytes: 0, changes: 0 };
        Progress {
            documents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            last: Mutex::new(last),
        }
    }

    pub(super) fn copied(&self, documents: usize, bytes: usize) {
        self.documents.fetch_add(documents as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Prints a line if it is time for one. `behind`: the seconds between the newest operation of the source and the
    /// changes that are applied; `None` while the base is copied.
    pub(super) fn tick(&self, behind: Option<u64>) {
        // A thread that panicked has left complete counts.
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let time = last.at.elapsed();
        if time < INTERVAL {
            return;
        }
        let now = Line {
            at: Instant::now(),
            documents: self.documents.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        };
        let line = self.line(&last, &now, time, behind);
        *last = now;
        drop(last);
        note(&line);
    }

    fn line(&self, last: &Line, now: &Line, time: Duration, behind: Option<u64>) -> String {
        let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / time.as_secs_f64();
        match behind {
            None => format!(
                "base: {} of about {} documents, {:.1} MB; {:.0} documents/s, {:.1} MB/s",
                now.documents,
                self.expected.load(Ordering::Relaxed),
                now.bytes as f64 / 1e6,
                rate(last.documents, now.documents),
                rate(last.bytes, now.bytes) / 1e6,
            ),
            Some(behind) => format!(
                "following: {} changes; {:.0} changes/s, {behind} s behind the source",
                now.changes,
                rate(last.changes, now.changes),
            ),
        }
    }
}

/// Prints a line on standard error.
pub(super) fn note(text: &str) {
    crate::say(&format!("nagi copy: {text}"));
}

#[test]
fn lines_have_rates() {
    let progress = Progress::new();
    progress.expected.store(10, Ordering::Relaxed);
    let at = Instant::now();
    let last = Line { at, documents: 1, bytes: 0, changes: 4 };
    let now = Line { at, documents: 5, bytes: 8_000_000, changes: 24 };
    let time = Duration::from_secs(4);
    assert_eq!(
        progress.line(&last, &now, time, None),
        "base: 5 of about 10 documents, 8.0 MB; 1 documents/s, 2.0 MB/s"
    );
    assert_eq!(
        progress.line(&last, &now, time, Some(3)),
        "following: 24 changes; 5 changes/s, 3 s behind the source"
    );
}
