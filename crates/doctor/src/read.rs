//! The readers: collect [`Facts`] from the machine, without evaluating them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::checks::CHECKS;
use crate::facts::{DataFolder, Facts};
use crate::{access, cgroup, history, limits, measure, mount};

/// Maximum number of bytes read from a file; a table of mounts may be long.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files of the block device.
const QUEUE_FILES: &[&str] = &["read_ahead_kb", "rotational", "scheduler"];
/// Files that are read from the server's process instead of this one, if a server runs.
const OF_PROCESS: &[&str] = &[limits::TABLE, "/proc/self/status"];

/// Reads everything that is cheap: some thirty small files. `folder` is the data directory, if there is one.
pub(crate) fn facts(folder: Option<&Path>, connection_count_max: u64) -> Facts {
    let mut facts = Facts { connection_count_max, ..Facts::default() };
    if let Some(folder) = folder {
        facts.data = data_folder(folder);
        facts.history = history::read(folder);
        facts.server_pid = server_pid(folder);
    }
    for path in CHECKS.iter().flat_map(|check| check.reads) {
        let real = match facts.server_pid {
            Some(pid) if OF_PROCESS.contains(path) => path.replace("self", &pid.to_string()),
            _ => (*path).to_owned(),
        };
        take(&mut facts, path, &real);
    }
    for controller in cgroup::CONTROLLERS {
        let Ok(Some(groups)) = cgroup::groups(&facts, controller) else { continue };
        for folder in &groups.folders {
            for file in cgroup::files(groups.version, controller) {
                let path = format!("{folder}/{file}");
                take(&mut facts, &path, &path);
            }
        }
    }
    for folder in facts.data_mount().map(|mount| mount.queue_folders()).unwrap_or_default() {
        for file in QUEUE_FILES {
            let path = format!("{folder}/{file}");
            take(&mut facts, &path, &path);
        }
    }
    facts
}

/// Adds the disk test; see [`measure::measure`] for its cost.
pub(crate) fn measure(facts: &mut Facts) {
    if let Some(data) = facts.data.as_ref().filter(|data| data.is_there && data.is_writable) {
        facts.measured = Some(measure::measure(Path::new(&data.path), data.available_bytes));
    }
}

/// Memory that this process may use: the smaller of the machine's memory and the limit of its control groups.
/// None if `/proc` is not mounted.
pub fn memory_bytes() -> Option<u64> {
    let machine = text("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    });
    [machine, group_memory_bytes()].into_iter().flatten().min()
}

/// The lowest memory limit of the control groups that contain this process.
fn group_memory_bytes() -> Option<u64> {
    group_memory_bytes_in(&text)
}

/// Like [`group_memory_bytes`], but reads files through `read`. A folder without a limit contains `max` (v2) or
/// a number larger than any memory (v1).
fn group_memory_bytes_in(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let groups = cgroup::groups_in(&read(cgroup::MEMBERSHIP)?, &read(mount::TABLE)?, "memory")?;
    let file = if groups.version == 2 { "memory.max" } else { "memory.limit_in_bytes" };
    let limit = |folder: &String| read(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
    groups.folders.iter().filter_map(limit).min()
}

fn take(facts: &mut Facts, path: &str, real: &str) {
    if let Some(text) = text(real) {
        facts.files.insert(path.to_owned(), text);
    }
}

/// Opens a regular file; returns none for anything else. Opening a pipe would block until its other end is
/// opened.
pub(crate) fn open(path: &Path) -> Option<File> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    File::open(path).ok()
}

fn text(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    open(Path::new(path))?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn data_folder(folder: &Path) -> Option<DataFolder> {
    let absolute = std::path::absolute(folder).ok()?;
    let real = nearest(&absolute)?;
    let system = rustix::fs::statvfs(&real).ok()?;
    let is_there = absolute.is_dir();
    Some(DataFolder {
        path: folder.display().to_string(),
        real_path: real.display().to_string(),
        is_there,
        is_writable: is_there && rustix::fs::access(&real, Access::WRITE_OK).is_ok(),
        access: if is_there { access::of(&real) } else { Default::default() },
        total_bytes: system.f_blocks.saturating_mul(system.f_frsize),
        available_bytes: system.f_bavail.saturating_mul(system.f_frsize),
        file_count_max: system.f_files,
        file_count_free: system.f_favail,
    })
}

/// The path itself or its nearest ancestor that exists.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|path| path.canonicalize().ok())
}

/// The process id of the server that holds the folder's lock file, if it still runs.
fn server_pid(folder: &Path) -> Option<u32> {
    let pid = text(folder.join("mongod.lock").to_str()?)?.trim().parse().ok()?;
    let name = text(&format!("/proc/{pid}/comm"))?;
    (name.trim() == "nagi").then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit that a tree of files gives, as pairs of path and text.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        group_memory_bytes_in(&|path| {
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
                (cgroup::MEMBERSHIP, "0::/system.slice/nagi.service\n"),
                (mount::TABLE, v2),
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
        let inside =
            [(cgroup::MEMBERSHIP, "0::/\n"), (mount::TABLE, v2), (&container, "536870912\n")];
        assert_eq!(limit(&inside), Some(512 << 20));
        let v1 = "31 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let old = [
            (cgroup::MEMBERSHIP, "4:memory:/docker/a\n"),
            (mount::TABLE, v1),
            ("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "268435456\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(limit(&old), Some(256 << 20));
        assert_eq!(limit(&[]), None);
    }
}
