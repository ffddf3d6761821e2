//! The memory cgroup that contains the neighbour and the server.
//!
//! `bench/limits.sh` creates the cgroup and watches this program. However this program terminates, the script
//! terminates the processes left in the cgroup and removes it.
use super::holder;
use crate::args::{Outcome, Problem, failed, self_program};
use crate::process::{Server, free_port};
use crate::working_set::limits::{NAME, SCRIPT};
use nagi_proc::cgroup::Version;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the names of the cgroups that the script creates; its process id follows.
const MARK: &str = "nagi-limits";
const ROOT: &str = "/sys/fs/cgroup";

/// When dropped, the neighbour is terminated and the cgroup is removed. The server must have stopped before.
pub(super) struct Group {
    /// The script that runs the neighbour; its address is that of the neighbour.
    script: Server,
    pub(super) version: Version,
    pub(super) folder: PathBuf,
    /// The neighbour's process id.
    pub(super) neighbour: u32,
    neighbour_megabytes: u64,
}

impl Group {
    /// Returns once the neighbour has touched all its memory.
    pub(super) fn start(
        scratch: &Path,
        memory_megabytes: u64,
        neighbour_megabytes: u64,
    ) -> Outcome<Group> {
        let pid_file = scratch.join("neighbour.pid");
        let (pid_text, program) = (
            pid_file.to_string_lossy().into_owned(),
            self_program()?.to_string_lossy().into_owned(),
        );
        let port = free_port()?;
        let (port_text, memory) = (port.to_string(), format!("{memory_megabytes}M"));
        let megabytes = neighbour_megabytes.to_string();
        let args = [
            ["-c", SCRIPT, NAME, "run"].as_slice(),
            &["--memory", &memory, "--swap", "yes", "--with-parent", "yes"],
            &["--pid-file", &pid_text, "--", &program, "neighbour"],
            &["--port", &port_text, "--megabytes", &megabytes],
        ]
        .concat();
        let script = Server::start(Path::new("bash"), &args, port)?;
        let pid = fs::read_to_string(&pid_file).map_err(failed("reading the neighbour's pid"))?;
        let _ = fs::remove_file(&pid_file);
        let neighbour = pid.trim().parse().map_err(failed("reading the neighbour's pid"))?;
        let version = match Path::new(ROOT).join("cgroup.controllers").exists() {
            true => Version::Two,
            false => Version::One,
        };
        let folder = folder(version, script.id());
        if !folder.is_dir() {
            return Err(Problem::Failed(format!("no cgroup {}", folder.display())));
        }
        Ok(Group { script, version, folder, neighbour, neighbour_megabytes })
    }

    /// Starts `nagi serve` inside the cgroup, so that all its pages are charged to it.
    pub(super) fn server(&self, program: &Path, dbpath: &Path, more: &[&str]) -> Outcome<Server> {
        fs::create_dir_all(dbpath).map_err(failed("creating the data directory"))?;
        let port = free_port()?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (procs, program) = (text(&self.folder.join("cgroup.procs")), text(program));
        let (data, log) = (text(dbpath), text(&dbpath.with_extension("log")));
        let port_text = port.to_string();
        let args = [
            ["-c", "echo $$ >\"$0\" && exec \"$@\"", &procs, &program, "serve"].as_slice(),
            &["--dbpath", &data, "--port", &port_text, "--bind_ip", "127.0.0.1"],
            &["--logpath", &log, "--logappend"],
            more,
        ]
        .concat();
        Server::start(Path::new("sh"), &args, port)
    }

    /// Makes the neighbour read all its memory.
    pub(super) fn walk(&self) -> Outcome<Duration> {
        holder::ask(&self.script.address, self.neighbour_megabytes)
    }
}

fn folder(version: Version, script: u32) -> PathBuf {
    let root = Path::new(ROOT);
    match version {
        Version::One => root.join("memory").join(format!("{MARK}-{script}")),
        Version::Two => root.join(format!("{MARK}-{script}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_where_the_script_makes_them() {
        assert_eq!(folder(Version::One, 7), Path::new("/sys/fs/cgroup/memory/nagi-limits-7"));
        assert_eq!(folder(Version::Two, 7), Path::new("/sys/fs/cgroup/nagi-limits-7"));
        assert!(SCRIPT.contains(&format!("mark={MARK}\n")));
    }
}
