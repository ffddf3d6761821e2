//! `--fork`: runs the server in the background.
//!
//! ```text
//!   parent: nagi serve --fork                      child: nagi serve --fork, NAGI_FORKED=1
//!     spawn the program with a pipe as its ------>   setsid, open the log, start the server
//!     standard output and standard error
//!     print its lines  <--------- error texts -----
//!     "ready": exit 0  <--------- "ready" ---------  connections are accepted
//!     end of the pipe: exit with its code  <-------  the start failed
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::failure::exit;

/// The environment variable that marks the child process.
const MARK: &str = "NAGI_FORKED";
const READY: &str = "ready";

/// Returns true in the child process, which serves.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the child process and waits until it is ready. Returns the exit code of the parent.
pub(crate) fn start(args: &[String]) -> ExitCode {
    crate::print("about to fork child process, waiting until server is ready for connections.");
    let spawned = program().and_then(|program| {
        let (reader, writer) = std::io::pipe()?;
        let child = Command::new(program)
            .arg("serve")
            .args(args)
            .env(MARK, "1")
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()?;
        Ok((child, reader))
    });
    let (mut child, reader) = match spawned {
        Ok(spawned) => spawned,
        Err(error) => {
            crate::say(&format!("cannot start the child process: {error}"));
            return ExitCode::from(exit::FAILURE);
        }
    };
    crate::print(&format!("forked process: {}", child.id()));
    // The child process is the only writer, so the pipe closes when it exits.
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        if line == READY {
            crate::print("child process started successfully, parent exiting");
            return ExitCode::SUCCESS;
        }
        crate::say(&line);
    }
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(1);
    if code == 0 {
        // For example with --repair, which does not serve afterwards.
        crate::print("child process finished successfully, parent exiting");
        return ExitCode::SUCCESS;
    }
    crate::say(&format!("ERROR: child process failed, exited with {code}"));
    crate::say(
        "To see additional information in this output, start without the \"--fork\" option.",
    );
    ExitCode::from(u8::try_from(code).unwrap_or(exit::FAILURE))
}

/// The path of this program: the path that it was called by, if it contains one. A link named `mongod` then determines
/// the name of the process, by which tools such as mlaunch find servers.
fn program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let called = std::env::args_os().next().map(PathBuf::from);
    let is_own = |path: &PathBuf| path.components().count() > 1 && same_file(path, &own);
    Ok(called.filter(is_own).unwrap_or(own))
}

fn same_file(path: &Path, own: &Path) -> bool {
    let resolved = path.canonicalize().ok().zip(own.canonicalize().ok());
    resolved.is_some_and(|(one, other)| one == other)
}

/// Leaves the session of the terminal.
pub(crate) fn detach() {
    // Fails only for the leader of a process group, which a child is not.
    let _ = rustix::process::setsid();
}

/// Tells the parent that the server is ready.
pub(crate) fn ready() {
    let mut out = std::io::stdout().lock();
    // The parent may have been interrupted.
    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
}
