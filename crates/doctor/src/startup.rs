//! The checks that run when a server starts, as lines for its log.

use std::path::Path;

use crate::checks::CHECKS;
use crate::facts::Facts;
use crate::finding::{Outcome, StartupLine};
use crate::read;

/// Lines to log with the tag `startupWarnings`. Takes a few milliseconds. `folder` is the data directory, or
/// none for a server that keeps its data in memory.
pub fn startup_warnings(
    folder: Option<&Path>,
    connection_count_max: u64,
    budget_bytes: u64,
) -> Vec<StartupLine> {
    of(&read::facts(folder, connection_count_max, budget_bytes))
}

/// The lines that the facts give rise to, in the order of the registry.
fn of(facts: &Facts) -> Vec<StartupLine> {
    let mut lines = Vec::new();
    for check in CHECKS.iter().filter(|check| !check.is_measured) {
        if let Ok(Outcome::Bad(finding)) = (check.run)(facts) {
            lines.extend(finding.startup);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_known_is_nothing_to_log() {
        assert_eq!(of(&Facts::default()), []);
    }

    #[test]
    fn warnings_are_logged_and_notes_are_not() {
        let mut facts = Facts::default();
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        facts.files.extend([
            file("/proc/sys/vm/swappiness", "60"),
            file("/proc/meminfo", "SwapTotal: 1000 kB"),
            file("/proc/sys/kernel/osrelease", "4.9.0-18-amd64"),
            file("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
        ]);
        let ids: Vec<_> = of(&facts).iter().map(|line| line.id).collect();
        assert_eq!(ids, [8_386_700, 22_178]);
    }
}
