//! `--fork`: the server in the background.
//!
//! The program starts itself once more, in a session of its own, with a pipe as standard output and
//! standard error. The first process prints what comes out of it, until the second says that it accepts
//! connections, or ends: then the first ends with the same exit code.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Tells the second process that it is the second.
const MARK: &str = "NAGI_FORKED";
const READY: &str = "ready";

/// Whether this is the process that serves.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the serving process and waits until it is ready. Returns the exit code of the first.
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
            return ExitCode::from(1);
        }
    };
    crate::print(&format!("forked process: {}", child.id()));
    // The pipe ends when the child does: it has no other writer.
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        if line == READY {
            crate::print("child process started successfully, parent exiting");
            return ExitCode::SUCCESS;
        }
        crate::say(&line);
    }
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(1);
    if code == 0 {
        // Such as --repair: it does not continue to serve.
        crate::print("child process finished successfully, parent exiting");
        return ExitCode::SUCCESS;
    }
    crate::say(&format!("ERROR: child process failed, exited with {code}"));
    crate::say(
        "To see additional information in this output, start without the \"--fork\" option.",
    );
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// This program, by the path that it was called by if there is one: a link called `mongod` names the
/// process, and tools such as mlaunch find servers by that name.
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

/// Says that the server is ready.
pub(crate) fn ready() {
    let mut out = std::io::stdout().lock();
    // The first process may have been interrupted.
    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
}
