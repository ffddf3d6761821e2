//! The limit of threads of a user.
use super::prelude::*;

pub(super) static PROCESSES: Check = Check {
    name: "processes",
    title: "limit of processes and threads",
    reads: &[limits::TABLE],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let count = limits::limit(facts, "Max processes")?.soft;
    if count == u64::MAX {
        return good("unlimited");
    }
    let needed = limits::threads(facts)?;
    if count >= needed {
        return good(count.to_string());
    }
    found(
        Warning,
        format!("Only {count} threads are allowed, {needed} may be needed"),
        "a connection is a thread: past the limit new connections are refused",
        format!("ulimit -u {}   (systemd: LimitNPROC=64000)", needed.max(64_000)),
    )
    .logged(
        "CONTROL",
        8_210_020,
        "Soft rlimits for processes too low",
        doc! { "currentValue": (count as i64), "recommendedMinimum": (needed as i64) },
    )
    .verdict()
}
