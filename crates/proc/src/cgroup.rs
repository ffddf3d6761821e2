//! Control groups, version 1 and 2: the folders whose limits hold for this process, and its bound of memory.
//!
//! A limit of any folder from the process' own up to the mounted root holds, so the least of them counts. In a
//! container the root of the mount is the container's own group.

use crate::fields::spaced_number;
use crate::mounts::{self, Mount};

/// Which group this process is in.
pub const PATH: &str = "/proc/self/cgroup";

/// Deeper nesting is not followed.
const DEPTH_MAX: usize = 32;

/// Of the hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    /// Which file of a group holds its limit of memory.
    pub fn memory_limit_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }
}

/// Folders of the groups for a controller, the process' own first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    pub version: Version,
    pub folders: Vec<String>,
}

impl Groups {
    /// The least number in `file` over all folders, and the path where it stands, from files as `read` gives them. A
    /// folder without a limit says `max` (v2) or a number beyond all memory (v1).
    pub fn least<T: AsRef<str>>(
        &self,
        file: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<(u64, String)> {
        let limits = self.folders.iter().filter_map(|folder| {
            let path = format!("{folder}/{file}");
            let limit = read(&path)?.as_ref().trim().parse::<u64>().ok()?;
            Some((limit, path))
        });
        limits.min()
    }
}

/// Where the limits of `controller` (`memory`, `cpu`, `pids`) stand, by the contents of [`PATH`] and of the table of
/// mounts; none if no group has it.
pub fn groups(membership: &str, mounts: &str, controller: &str) -> Option<Groups> {
    let lines = || {
        membership.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
    };
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let old = lines().find(|(controllers, _)| has(controllers));
    if let Some((_, path)) = old {
        let mount = mounts::all(mounts).find(|m| m.kind == "cgroup" && m.has(controller))?;
        return Some(Groups { version: Version::One, folders: upwards(&mount, path) });
    }
    let (_, path) = lines().find(|(controllers, _)| controllers.is_empty())?;
    let mount = mounts::all(mounts).find(|m| m.kind == "cgroup2")?;
    Some(Groups { version: Version::Two, folders: upwards(&mount, path) })
}

/// From the group at `path` to the root of the mount.
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

/// Memory that this process may use: of the machine or of the control groups around it, whichever is less. None where
/// there is no `/proc`.
pub fn memory_bytes() -> Option<u64> {
    [crate::meminfo::read().total, group_memory_bytes(&|path| crate::text(path))]
        .into_iter()
        .flatten()
        .min()
}

/// The least memory limit of the control groups around this process.
fn group_memory_bytes(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let groups = groups(&read(PATH)?, &read(mounts::PATH)?, "memory")?;
    groups.least(groups.version.memory_limit_file(), read).map(|(limit, _)| limit)
}

/// Bytes of files in memory by a group's `memory.stat`, those of shared memory left out: they can no more be dropped
/// than a heap.
pub fn page_cache_bytes(version: Version, stat: &str) -> Option<u64> {
    let files = match version {
        Version::One => spaced_number(stat, "cache"),
        Version::Two => spaced_number(stat, "file"),
    };
    Some(files?.saturating_sub(spaced_number(stat, "shmem").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_both_versions() {
        let mounts = "31 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let membership = "4:memory:/a/b\n0::/x\n";
        let found = groups(membership, mounts, "memory").unwrap();
        let at = "/sys/fs/cgroup/memory";
        assert_eq!(found.folders, [format!("{at}/a/b"), format!("{at}/a"), at.to_owned()]);
        let found = groups(membership, mounts, "pids").unwrap();
        assert_eq!((found.version, found.folders.len()), (Version::Two, 2));
        let inside = "30 1 0:26 /docker/id /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let found = groups("0::/docker/id", inside, "cpu").unwrap();
        assert_eq!(found.folders, ["/sys/fs/cgroup"]);
        assert!(groups("", inside, "cpu").is_none());
    }

    /// The limit that a tree of files, path and text in turn, says.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        group_memory_bytes(&|path| {
            files.iter().find(|file| file.0 == path).map(|file| file.1.to_owned())
        })
    }

    #[test]
    fn memory_limits_of_control_groups() {
        let v2 = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let at = |folder: &str| format!("/sys/fs/cgroup{folder}/memory.max");
        let (own, parent) = (at("/system.slice/nagi.service"), at("/system.slice"));
        let tree = |own_limit, parent_limit| {
            limit(&[
                (PATH, "0::/system.slice/nagi.service\n"),
                (mounts::PATH, v2),
                (&own, own_limit),
                (&parent, parent_limit),
            ])
        };
        assert_eq!(tree("1073741824\n", "max\n"), Some(1 << 30));
        assert_eq!(tree("max\n", "2147483648\n"), Some(2 << 30), "a parent's limit holds too");
        assert_eq!(tree("4294967296\n", "2147483648\n"), Some(2 << 30));
        assert_eq!(tree("max\n", "max\n"), None);
        assert_eq!(tree("nonsense\n", ""), None);
        let container = at("");
        let inside = [(PATH, "0::/\n"), (mounts::PATH, v2), (&container, "536870912\n")];
        assert_eq!(limit(&inside), Some(512 << 20));
        let v1 = "31 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let old = [
            (PATH, "4:memory:/docker/a\n"),
            (mounts::PATH, v1),
            ("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "268435456\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(limit(&old), Some(256 << 20));
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn page_cache_of_both_versions() {
        let one = "cache 64921600\nrss 6975488\nrss_huge 0\nshmem 9068544\ntotal_cache 325389\n";
        assert_eq!(page_cache_bytes(Version::One, one), Some(55_853_056));
        let two = "anon 1\nfile 5000\nkernel 7\nshmem 1000\nfile_mapped 3\nfile_dirty 4\n";
        assert_eq!(page_cache_bytes(Version::Two, two), Some(4000));
        assert_eq!(page_cache_bytes(Version::One, "total_cache 5\n"), None);
        assert_eq!(page_cache_bytes(Version::Two, "file x\n"), None);
        assert_eq!(page_cache_bytes(Version::One, "cache 5\n"), Some(5));
    }
}
