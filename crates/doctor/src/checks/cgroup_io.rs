//! The I/O limits of a control group.
use super::prelude::*;
use nagi_proc::cgroup::{Groups, Version};
use nagi_proc::mounts::Mount;

pub(super) static CGROUP_IO: Check = Check {
    name: "cgroup_io",
    title: "disk limits of the control group",
    reads: &[cgroup::MEMBERSHIP, mounts::PATH],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let disk = facts.data_mount()?;
    // The controller is named `blkio` in version 1. In version 2 every group may have it.
    let groups = match cgroup::groups(facts, "blkio")? {
        Some(groups) => groups,
        None => match cgroup::groups(facts, "io")? {
            Some(groups) => groups,
            None => return good("no control group"),
        },
    };
    let limits = limits(facts, &groups, &disk);
    let Some((_, path)) = limits.first() else {
        return good("no limit");
    };
    let text: Vec<_> = limits.iter().map(|(limit, _)| limit.as_str()).collect();
    found(
        Note,
        format!("The control group limits the disk: {}", text.join(", ")),
        "at the limit requests wait in the kernel, and reads wait behind flushes and compactions, \
         even if the disk is faster",
        format!(
            "raise or remove the limit in {path}   (docker: --device-write-bps and similar \
                 options)"
        ),
    )
    .verdict()
}

/// The limits of the group and of all groups above it, with the path of each.
fn limits(facts: &Facts, groups: &Groups, disk: &Mount) -> Vec<(String, String)> {
    let controller = if groups.version == Version::One { "blkio" } else { "io" };
    let mut limits = Vec::new();
    for folder in &groups.folders {
        for file in cgroup::files(groups.version, controller) {
            let path = format!("{folder}/{file}");
            let Ok(text) = facts.text(&path) else { continue };
            for line in text.lines() {
                let Some((device, values)) = line.split_once(' ') else { continue };
                if is_of(device, disk) {
                    limits.extend(
                        values.split(' ').filter_map(|v| Some((limit(file, v)?, path.clone()))),
                    );
                }
            }
        }
    }
    limits
}

/// A limit in words; none for `max`.
fn limit(file: &str, value: &str) -> Option<String> {
    let (name, number) = value.split_once('=').unwrap_or((file, value));
    let number: u64 = number.parse().ok()?;
    let verb = match name {
        name if name.starts_with('r') || name.contains("read") => "reads",
        _ => "writes",
    };
    Some(match name.contains("iops") {
        true => format!("{number} {verb} a second"),
        false => format!("{verb} of {} a second", bytes(number)),
    })
}

/// Returns true if the device is the disk, or the whole disk that contains the partition. `sd` and `vd` disks
/// have 16 minor numbers each, of which the first is the whole disk; for other disks the number does not show
/// the relation.
fn is_of(device: &str, disk: &Mount) -> bool {
    if device == disk.device {
        return true;
    }
    let numbers = |text: &str| -> Option<(u32, u32)> {
        let (major, minor) = text.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let has_partitions = ["/dev/sd", "/dev/vd"].iter().any(|p| disk.source.starts_with(p));
    match (numbers(device), numbers(&disk.device)) {
        (Some((a, whole)), Some((b, part))) => has_partitions && a == b && whole == part / 16 * 16,
        _ => false,
    }
}
