//! The limit of open files of a process.
use super::prelude::*;

pub(super) static OPEN_FILES: Check = Check {
    name: "open_files",
    title: "limit of open files",
    reads: &[limits::TABLE],
    is_measured: false,
    run,
};

/// MongoDB's recommendation.
const RECOMMENDED: u64 = 64_000;

fn run(facts: &Facts) -> Verdict {
    let count = limits::open_files(facts)?;
    if count == u64::MAX {
        return good("unlimited");
    }
    if count >= RECOMMENDED {
        return good(count.to_string());
    }
    found(
        Warning,
        format!("Only {count} files may be open"),
        format!(
            "every connection and every data file takes one; about {} connections fit",
            count / 5 * 4
        ),
        "ulimit -Hn 64000   (systemd: LimitNOFILE=64000; docker: --ulimit nofile=64000)",
    )
    .logged(
        "CONTROL",
        22_184,
        "Soft rlimits for open file descriptors too low",
        doc! { "currentValue": (count as i64), "recommendedMinimum": (RECOMMENDED as i64) },
    )
    .verdict()
}
