//! Control groups: the folders whose limits hold for this process, and the files of them that checks need.

use nagi_proc::cgroup::{Groups, Version};
use nagi_proc::mounts;

use crate::facts::Facts;
use crate::finding::NotKnown;

pub(crate) use nagi_proc::cgroup::PATH as MEMBERSHIP;

/// The folders that contain the limits of `controller` (`memory`, `cpu`, `pids`); none if no group has it.
pub(crate) fn groups(facts: &Facts, controller: &str) -> Result<Option<Groups>, NotKnown> {
    let (membership, mounts) = (facts.text(MEMBERSHIP)?, facts.text(mounts::PATH)?);
    Ok(nagi_proc::cgroup::groups(membership, mounts, controller))
}

/// Files of a group that checks look at.
pub(crate) fn files(version: Version, controller: &str) -> &'static [&'static str] {
    match (version, controller) {
        (Version::One, "blkio") => &[
            "blkio.throttle.read_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.write_iops_device",
        ],
        (Version::Two, "io") => &["io.max"],
        (Version::One, "memory") => &["memory.limit_in_bytes"],
        (Version::One, "cpu") => &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"],
        (_, "pids") => &["pids.max"],
        (Version::Two, "memory") => &["memory.max", "memory.high"],
        (Version::Two, "cpu") => &["cpu.max", "cpu.stat"],
        _ => &[],
    }
}

/// The controllers that the checks read.
pub(crate) const CONTROLLERS: &[&str] = &["blkio", "cpu", "io", "memory", "pids"];

/// The lowest number in `file` over all folders, and the path of its file; `max` means no limit.
pub(crate) fn least(facts: &Facts, groups: &Groups, file: &str) -> Option<(u64, String)> {
    groups.least(file, |path| facts.text(path).ok())
}
