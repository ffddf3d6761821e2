//! Progress of a build, for `currentOp` and, every few seconds, for the log.

use crate::{BuildOptions, clock};

/// Time between two lines of the log.
const REPORT_MS: i64 = 3000;

/// One phase of a build.
pub(crate) struct Meter {
    name: &'static str,
    total: i64,
    done: i64,
    reported_ms: i64,
}

impl Meter {
    /// A phase with `total` steps; the total grows if there turn out to be more.
    pub(crate) fn new(name: &'static str, total: i64) -> Meter {
        Meter { name, total, done: 0, reported_ms: clock::now_ms() }
    }

    pub(super) fn done(&self) -> i64 {
        self.done
    }

    /// Adds `more` completed steps.
    pub(super) fn step(&mut self, more: u64, options: BuildOptions<'_>) {
        self.at(self.done as u64 + more, options);
    }

    /// Sets the number of completed steps.
    pub(crate) fn at(&mut self, done: u64, options: BuildOptions<'_>) {
        self.done = done as i64;
        let total = self.total.max(self.done);
        if let Some(progress) = options.progress {
            progress(self.name, self.done, total);
        }
        let now_ms = clock::now_ms();
        if now_ms - self.reported_ms >= REPORT_MS {
            self.reported_ms = now_ms;
            log::info!(target: "-", id = 51773, name = self.name, done = self.done, total = total,
                percent = self.done * 100 / total.max(1); "progress meter");
        }
    }
}
