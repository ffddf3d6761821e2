//! The kernel's read-ahead on the block device. Reads with `O_DIRECT`, the default, have none.
use super::prelude::*;

pub(super) static READ_AHEAD: Check = Check {
    name: "read_ahead",
    title: "read-ahead of the disk",
    reads: &[mounts::PATH],
    is_measured: false,
    run,
};

/// The kernel's default.
const DEFAULT_KIB: u64 = 128;

fn run(facts: &Facts) -> Verdict {
    let (path, text) = facts.queue("read_ahead_kb")?;
    let kib: u64 = text.parse().map_err(|_| NotKnown(format!("{path} holds no number")))?;
    if kib <= DEFAULT_KIB {
        return good(format!("{kib} KB"));
    }
    if !facts.reads_through_cache {
        return good(format!(
            "{kib} KB; the server reads with O_DIRECT, which reads nothing ahead"
        ));
    }
    found(
        Warning,
        format!("The disk reads {kib} KB ahead"),
        "the server reads data files through the page cache (storage.directIO: false, or the engine mmapv1): \
         lookups in an index read a few KB at random places, and the data read ahead costs bandwidth and \
         fills the page cache",
        format!("echo 32 > {path}   (keep it by a udev rule)"),
    )
    .verdict()
}
