//! The type of the file system below the data directory.
use super::prelude::*;
use crate::finding::{Finding, Severity};

pub(super) static FILE_SYSTEM: Check = Check {
    name: "file_system",
    title: "type of the file system",
    reads: &[mounts::PATH],
    is_measured: false,
    run,
};

const MOVE: &str = "move the data directory to ext4 or XFS on a local disk";

/// Types whose storage is on another machine or behind a user-space process.
const REMOTE: &[&str] = &[
    "9p",
    "afs",
    "ceph",
    "cifs",
    "fuse",
    "gfs2",
    "glusterfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "smbfs",
    "virtiofs",
];

fn run(facts: &Facts) -> Verdict {
    let mount = facts.data_mount()?;
    let kind = mount.kind.as_str();
    let on = format!("{kind} on {}", mount.source);
    let finding = match kind {
        "ext4" | "xfs" => return good(on),
        "tmpfs" | "ramfs" | "devtmpfs" => logged(
            Critical,
            kind,
            "is in memory and lost at a reboot",
            "no write survives a restart of the machine, and the data competes with the cache for \
             memory",
            "use --storageEngine inMemory if this is intended, otherwise a directory on a disk",
            8_210_007,
        ),
        "ext3" => logged(
            Warning,
            kind,
            "cannot reserve space without writing it",
            "ext3 has no fallocate, and an fsync also writes the data of other files: both show as \
             stalls of seconds",
            "back up; tune2fs -O extent,uninit_bg,dir_index DEVICE; e2fsck -f DEVICE; mount it as ext4",
            8_210_008,
        ),
        "overlay" | "aufs" => logged(
            Warning,
            kind,
            "belongs to a container and is deleted with it",
            "the first write to an existing file of the layer copies the whole file",
            "mount a volume at the data directory: docker run -v VOLUME:/data/db",
            8_210_009,
        ),
        "ext2" | "vfat" | "msdos" | "exfat" | "ntfs" | "ntfs3" | "fuseblk" | "hfsplus" => logged(
            Warning,
            kind,
            "has no journal or is not a native Linux file system",
            "after a power cut files may be missing or torn in ways no journal can repair",
            MOVE,
            8_210_010,
        ),
        "btrfs" | "zfs" | "bcachefs" | "f2fs" | "nilfs2" => found(
            Note,
            format!("The data directory is on {kind}, which writes every block to a new place"),
            "files written in place (the log) become fragments, and a full file system stalls long \
             before it is full",
            match kind {
                "btrfs" => "chattr +C on the empty data directory, or move it to ext4 or XFS",
                "zfs" => "zfs set recordsize=16K and atime=off, or move it to ext4 or XFS",
                _ => MOVE,
            },
        ),
        other if REMOTE.contains(&other) || other.starts_with("fuse.") => logged(
            Warning,
            kind,
            "is reached over a network or through another process",
            "an operation waits for the network, locks and fsync depend on the other side, and an \
             outage hangs the server",
            MOVE,
            8_210_011,
        ),
        _ => {
            found(Note, format!("The data directory is on {on}"), "Nagi is not tested there", MOVE)
        }
    };
    finding.verdict()
}

fn logged(severity: Severity, kind: &str, what: &str, why: &str, fix: &str, id: i64) -> Finding {
    found(severity, format!("The data directory is on {kind}, which {what}"), why, fix)
        .logged_as_found("STORAGE", id)
}
