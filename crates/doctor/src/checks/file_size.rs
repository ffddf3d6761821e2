//! The limit of a file's size (`ulimit -f`).
use super::prelude::*;

pub(super) static FILE_SIZE: Check = Check {
    name: "file_size",
    title: "limit of file sizes",
    reads: &[limits::TABLE],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let limit = limits::limit(facts, "Max file size")?.soft;
    if limit == u64::MAX {
        return good("unlimited");
    }
    found(
        Critical,
        format!("Files may not be larger than {}", bytes(limit)),
        "a write past the limit kills the process (SIGXFSZ)",
        "ulimit -f unlimited   (systemd: LimitFSIZE=infinity)",
    )
    .logged_as_found("CONTROL", 8_210_006)
    .verdict()
}
