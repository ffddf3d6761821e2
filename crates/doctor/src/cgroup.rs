//! Control groups, version 1 and 2: the folders whose limits apply to this process.
//!
//! The limits of all folders from the process's own up to the mounted root apply, so a check takes the lowest.
//! In a container the root of the mount is the container's own group.

use crate::facts::Facts;
use crate::finding::NotKnown;
use crate::mount::{self, Mount};

/// The file that names the groups of this process.
pub(crate) const MEMBERSHIP: &str = "/proc/self/cgroup";

/// Maximum nesting that is followed.
const DEPTH_MAX: usize = 32;

/// The folders of the groups for a controller; the process's own comes first.
pub(crate) struct Groups {
    pub(crate) version: u8,
    pub(crate) folders: Vec<String>,
}

/// The folders that contain the limits of `controller` (`memory`, `cpu`, `pids`); none if no group has it.
pub(crate) fn groups(facts: &Facts, controller: &str) -> Result<Option<Groups>, NotKnown> {
    Ok(groups_in(facts.text(MEMBERSHIP)?, facts.text(mount::TABLE)?, controller))
}

/// Like [`groups`], but computed from the contents of the two files.
pub(crate) fn groups_in(membership: &str, mounts: &str, controller: &str) -> Option<Groups> {
    let lines = || {
        membership.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
    };
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let old = lines().find(|(controllers, _)| has(controllers));
    if let Some((_, path)) = old {
        let mount = mount::all(mounts).find(|m| m.kind == "cgroup" && m.has(controller))?;
        return Some(Groups { version: 1, folders: upwards(&mount, path) });
    }
    let (_, path) = lines().find(|(controllers, _)| controllers.is_empty())?;
    let mount = mount::all(mounts).find(|m| m.kind == "cgroup2")?;
    Some(Groups { version: 2, folders: upwards(&mount, path) })
}

/// The folders from the group at `path` up to the root of the mount.
fn upwards(mount: &Mount, path: &str) -> Vec<String> {
    let below = match mount.root.as_str() {
        "/" => path,
        root => path.strip_prefix(root).unwrap_or(""),
    };
    let mut folder = format!("{}{}", mount.point, below).trim_end_matches('/').to_owned();
    let mut folders = vec![folder.clone()];
    while folder.len() > mount.point.len() && folders.len() < DEPTH_MAX {
        let Some((up, _)) = folder.rsplit_once('/') else { break };
        folder = up.to_owned();
        folders.push(folder.clone());
    }
    folders
}

/// The files of a group that the checks read.
pub(crate) fn files(version: u8, controller: &str) -> &'static [&'static str] {
    match (version, controller) {
        (1, "blkio") => &[
            "blkio.throttle.read_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.write_iops_device",
        ],
        (2, "io") => &["io.max"],
        (1, "memory") => &["memory.limit_in_bytes"],
        (1, "cpu") => &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"],
        (1, "pids") | (2, "pids") => &["pids.max"],
        (2, "memory") => &["memory.max", "memory.high"],
        (2, "cpu") => &["cpu.max", "cpu.stat"],
        _ => &[],
    }
}

/// The controllers that the checks read.
pub(crate) const CONTROLLERS: &[&str] = &["blkio", "cpu", "io", "memory", "pids"];

/// The lowest number in `file` over all folders, and the path of its file; `max` means no limit.
pub(crate) fn least(facts: &Facts, groups: &Groups, file: &str) -> Option<(u64, String)> {
    let limits = groups.folders.iter().filter_map(|folder| {
        let path = format!("{folder}/{file}");
        let limit = facts.text(&path).ok()?.parse::<u64>().ok()?;
        Some((limit, path))
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_both_versions() {
        let mounts = "31 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let membership = "4:memory:/a/b\n0::/x\n";
        let groups = groups_in(membership, mounts, "memory").unwrap();
        let at = "/sys/fs/cgroup/memory";
        assert_eq!(groups.folders, [format!("{at}/a/b"), format!("{at}/a"), at.to_owned()]);
        let groups = groups_in(membership, mounts, "pids").unwrap();
        assert_eq!((groups.version, groups.folders.len()), (2, 2));
        let inside = "30 1 0:26 /docker/id /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let groups = groups_in("0::/docker/id", inside, "cpu").unwrap();
        assert_eq!(groups.folders, ["/sys/fs/cgroup"]);
        assert!(groups_in("", inside, "cpu").is_none());
    }
}
