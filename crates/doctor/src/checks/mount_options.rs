//! The options with which the file system is mounted.
use super::prelude::*;

pub(super) static MOUNT_OPTIONS: Check = Check {
    name: "mount_options",
    title: "mount options",
    reads: &[mounts::PATH],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let mount = facts.data_mount()?;
    let point = &mount.point;
    if mount.has("ro") {
        return found(
            Critical,
            format!("{point} is mounted read-only"),
            "the server cannot start; a file system that became read-only has met an error",
            format!("dmesg | grep -i error, then mount -o remount,rw {point}"),
        )
        .logged_as_found("STORAGE", 8_210_015)
        .verdict();
    }
    if mount.has("nobarrier") || mount.has("barrier=0") {
        return found(
            Warning,
            format!("{point} is mounted without barriers"),
            "fsync returns before the disk has written its cache: a power cut loses acknowledged writes",
            format!("mount -o remount,barrier=1 {point}"),
        )
        .logged_as_found("STORAGE", 8_210_016)
        .verdict();
    }
    if mount.has("sync") {
        return found(
            Warning,
            format!("{point} is mounted with sync"),
            "every write waits for the disk, even if the client did not request durability",
            format!("mount -o remount,async {point}"),
        )
        .logged_as_found("STORAGE", 8_210_017)
        .verdict();
    }
    if mount.has("discard") {
        return found(
            Note,
            format!("{point} is mounted with discard"),
            "the disk is told of the blocks of each removed file at once, and some disks stall \
             other requests meanwhile",
            format!("mount -o remount,nodiscard {point} && systemctl enable --now fstrim.timer"),
        )
        .verdict();
    }
    if mount.has("noatime") {
        return good("noatime");
    }
    if ["tmpfs", "ramfs"].contains(&mount.kind.as_str()) {
        return good("no disk to write access times to");
    }
    let (severity, cost) = match mount.has("relatime") {
        true => (Note, "the first read of a file on each day writes its access time"),
        false => (Warning, "every read of a file writes its access time"),
    };
    found(
        severity,
        format!("{point} is mounted without noatime"),
        format!("{cost}, which no program needs"),
        format!("mount -o remount,noatime {point}   (and noatime in /etc/fstab)"),
    )
    .verdict()
}
