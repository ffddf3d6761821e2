//! The I/O scheduler of the disk.
use super::prelude::*;

pub(super) static SCHEDULER: Check = Check {
    name: "scheduler",
    title: "I/O scheduler",
    reads: &[mounts::PATH],
    is_measured: false,
    run,
};

/// Name prefixes of devices that are layered on another device.
const VIRTUAL: &[&str] = &["dm-", "loop", "md", "nbd", "rbd", "vd", "xvd"];

fn run(facts: &Facts) -> Verdict {
    let (path, _) = facts.queue("scheduler")?;
    let chosen = facts.chosen(&path)?;
    let name = facts.data_mount()?.source;
    let name = name.rsplit('/').next().unwrap_or("");
    // Virtual disks report that they rotate unless they are configured otherwise.
    let is_virtual = VIRTUAL.iter().any(|prefix| name.starts_with(prefix));
    let rotates = !is_virtual && facts.queue("rotational").is_ok_and(|(_, text)| text == "1");
    let on = if rotates { "a disk that rotates" } else { "a solid or virtual disk" };
    match (chosen, rotates) {
        ("none" | "noop", true) => found(
            Note,
            format!("The scheduler is {chosen} on {on}"),
            "requests are not sorted by place, so the heads move more than they have to",
            format!("echo mq-deadline > {path}"),
        )
        .verdict(),
        ("cfq" | "bfq", false) => found(
            Note,
            format!("The scheduler is {chosen} on {on}"),
            "it waits for further requests of the same process and divides time into slices, which \
             only adds latency on such a disk",
            format!("echo none > {path}"),
        )
        .verdict(),
        _ => good(format!("{chosen} on {on}")),
    }
}
