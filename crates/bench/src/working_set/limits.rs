//! Runs a server inside limits: `bench/limits.sh` creates the file system, the memory cgroup and the throttle.
//!
//! The script is embedded in this program, so that it is available wherever the program is.
use crate::args::{Outcome, Problem, failed};
use crate::client::Connection;
use crate::process::{Server, free_port};
use nagi_bson::doc;
use nagi_proc::Process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `bench/limits.sh`.
pub(crate) const SCRIPT: &str = include_str!("../../../../bench/limits.sh");
pub(crate) const NAME: &str = "limits.sh";

/// Returns true if this process may set limits: it is root, on Linux.
pub(crate) fn possible() -> bool {
    Process::Own.status().is_some_and(|status| status.user == Some(0))
}

/// The script and the server it runs. When dropped, both are terminated and the limits are removed.
pub(crate) struct Limits {
    script: Option<Server>,
    mount: PathBuf,
    id: u32,
}

impl Limits {
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        file_system: &str,
        disk_bytes: u64,
        memory_bytes: u64,
        more: &[&str],
    ) -> Outcome<Limits> {
        let mount = folder.join("limited");
        let data = mount.join("data");
        let (pid_file, log) = (folder.join("limited.pid"), folder.join("limited.log"));
        let port = free_port()?;
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let mut args: Vec<String> = ["-c", SCRIPT, NAME, "run"].map(str::to_owned).to_vec();
        for (name, value) in [
            ("--memory", memory_bytes.to_string()),
            ("--fs", file_system.to_owned()),
            ("--size", disk_bytes.to_string()),
            ("--dir", shown(folder)),
            ("--on", shown(&mount)),
            ("--pid-file", shown(&pid_file)),
            ("--with-parent", "yes".to_owned()),
        ] {
            args.extend([name.to_owned(), value]);
        }
        // The data directory can only be created once the file system is mounted.
        let make = "mkdir -p \"$0\" && exec \"$@\"";
        args.extend(["--", "sh", "-c", make].map(str::to_owned));
        args.extend([shown(&data), shown(program), "serve".to_owned()]);
        for (name, value) in [
            ("--dbpath", shown(&data)),
            ("--port", port.to_string()),
            ("--bind_ip", "127.0.0.1".to_owned()),
            ("--logpath", shown(&log)),
        ] {
            args.extend([name.to_owned(), value]);
        }
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let script = Server::start(Path::new("bash"), &args, port)?;
        let pid = fs::read_to_string(&pid_file).map_err(failed("reading the server's pid"))?;
        let id = pid.trim().parse().map_err(failed("reading the server's pid"))?;
        Ok(Limits { script: Some(script), mount, id })
    }

    pub(crate) fn address(&self) -> &str {
        self.script.as_ref().map_or("", |script| &script.address)
    }

    /// The server's process id.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Changes the speed of the disk.
    pub(crate) fn throttle(&self, disk: &str) -> Outcome {
        let status = Command::new("bash")
            .args(["-c", SCRIPT, NAME, "throttle", disk])
            .arg(&self.mount)
            .arg(self.id.to_string())
            .status()
            .map_err(failed("starting bash"))?;
        match status.success() {
            true => Ok(()),
            false => Err(Problem::Failed(format!("{NAME} throttle {disk}: {status}"))),
        }
    }

    /// Stops the server in order; the script then removes the limits.
    pub(crate) fn end(mut self) -> Outcome {
        self.throttle("fast")?;
        let Some(script) = self.script.take() else { return Ok(()) };
        let mut connection = Connection::open(&script.address)?;
        // The server may close the connection instead of replying.
        let _ = connection.command(doc! { "shutdown": 1, "$db": "admin" }.as_doc());
        let ended = script.wait();
        self.remove_traces();
        ended
    }

    fn remove_traces(&self) {
        let _ = fs::remove_dir(&self.mount);
        let _ = fs::remove_file(self.mount.with_extension("pid"));
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        let Some(script) = self.script.take() else { return };
        // A killed script could not clean up, so it is sent SIGTERM and awaited.
        let asked =
            Command::new("bash").args(["-c", "kill -TERM $0", &script.id().to_string()]).status();
        if asked.is_ok_and(|status| status.success()) {
            let _ = script.wait();
        }
        self.remove_traces();
    }
}
