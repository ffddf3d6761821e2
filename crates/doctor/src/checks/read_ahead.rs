//! The kernel's read-ahead on the block device: a note only, because reads with `O_DIRECT`, the default, have none.
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
    found(
        Note,
        format!("The disk reads {kib} KB ahead"),
        "it matters to a server with storage.directIO: false or the engine mmapv1: lookups in an \
         index read a few KB at random places, and the data read ahead costs bandwidth and fills \
         the page cache; a server with direct I/O, the default, reads nothing ahead",
        format!("echo 32 > {path}   (keep it by a udev rule)"),
    )
    .verdict()
}
