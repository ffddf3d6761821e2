//! The version of the kernel.
use super::prelude::*;

pub(super) static KERNEL: Check = Check {
    name: "kernel",
    title: "version of the kernel",
    reads: &["/proc/sys/kernel/osrelease"],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let release = facts.text("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(NotKnown(format!("\"{release}\" has no version")));
    };
    let fix = "install the current kernel of the distribution";
    match (major, minor) {
        version if version < (3, 10) => found(
            Warning,
            format!("Linux {release} is too old"),
            "fallocate, fsync and direct I/O of ext4 and XFS had faults that lose data after a crash",
            fix,
        )
        .logged_as_found("CONTROL", 8_210_014)
        .verdict(),
        version if version < (4, 18) => found(
            Note,
            format!("Linux {release} is old"),
            "errors of write-back may go unreported to fsync (before 4.13), and the multi-queue block \
             layer is missing or young",
            fix,
        )
        .verdict(),
        _ => good(format!("Linux {release}")),
    }
}
