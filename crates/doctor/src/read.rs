//! The readers: collect [`Facts`] from the machine, without evaluating them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nagi_proc::{Process, text};
use rustix::fs::Access;

use crate::checks::CHECKS;
use crate::facts::{DataFolder, Facts};
use crate::{access, cgroup, history, limits, measure};

/// Of the block device.
const QUEUE_FILES: &[&str] = &["read_ahead_kb", "rotational", "scheduler"];
/// Files that are read from the server's process instead of this one, if a server runs.
const OF_PROCESS: &[&str] = &[limits::TABLE, "/proc/self/status"];

/// Reads everything that is cheap: some thirty small files. `folder` is the data directory, if there is one.
pub(crate) fn facts(folder: Option<&Path>, connection_count_max: u64, budget_bytes: u64) -> Facts {
    let mut facts = Facts { connection_count_max, budget_bytes, ..Facts::default() };
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

fn take(facts: &mut Facts, path: &str, real: &str) {
    if let Some(text) = text(real) {
        facts.files.insert(path.to_owned(), text);
    }
}

fn data_folder(folder: &Path) -> Option<DataFolder> {
    let absolute = std::path::absolute(folder).ok()?;
    let real = nearest(&absolute)?;
    let system = rustix::fs::statvfs(&real).ok()?;
    let found = std::fs::metadata(&absolute).ok().filter(std::fs::Metadata::is_dir);
    let is_there = found.is_some();
    let own = rustix::process::geteuid().as_raw();
    let closed = access::closed_ancestor(&absolute).filter(|_| !is_there);
    Some(DataFolder {
        path: folder.display().to_string(),
        real_path: real.display().to_string(),
        is_there,
        closed: closed.map(|closed| closed.display().to_string()),
        is_own: found.as_ref().is_some_and(|found| found.uid() == own),
        is_roots: found.is_some_and(|found| found.uid() == 0),
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
    let pid = text(folder.join("mongod.lock"))?.trim().parse().ok()?;
    (Process::Id(pid).name()? == "nagi").then_some(pid)
}
