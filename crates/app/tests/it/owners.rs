//! Files and processes of other users: messages name their owner. As root only, which may become another user.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Output;

use crate::process::{Folder, Server, nagi};

const NOBODY: u32 = 65_534;

/// Runs the program as another user; `None` if this process is not root, or that user may not run the program.
fn as_nobody(args: &[&str]) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return None;
    }
    nagi().args(args).uid(NOBODY).gid(NOBODY).output().ok()
}

fn said(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_server_warns_that_it_does_not_own_its_directory() {
    let folder = Folder::new("owner");
    let data = folder.data().display().to_string();
    if !rustix::process::geteuid().is_root() || chown(&data, Some(NOBODY), Some(NOBODY)).is_err() {
        eprintln!("skipped: only root may give a directory to another user");
        return;
    }
    let server = Server::start(&folder.data());
    let warnings = server.client().try_run_on("admin", "{getLog: 'startupWarnings'}").unwrap();
    let warnings = warnings.as_doc().to_string();
    assert!(warnings.contains("belongs to another user"), "{warnings}");
    assert!(warnings.contains(&format!("chown -R --reference={data} {data}")), "{warnings}");
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    // What it left is not the owner's.
    let args = ["--dbpath", &*data, "--port", "0", "--nounixsocket"];
    let Some(output) = as_nobody(&args) else { return };
    let text = said(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    let owners = format!("it belongs to user 0; this process runs as user {NOBODY}");
    assert!(text.contains("mongod.lock") && text.contains(&owners), "{text}");
}

#[test]
fn the_end_of_another_users_server_is_not_for_us() {
    let folder = Folder::new("end");
    let data = folder.data().display().to_string();
    let missing = folder.path().join("missing").display().to_string();
    let ended = crate::process::ended(&["--shutdown", "--dbpath", &missing]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(said(&ended).contains("NonExistentPath"), "{}", said(&ended));
    let ended = crate::process::ended(&["--shutdown", "--dbpath", &data]);
    assert!(said(&ended).contains("There doesn't seem to be a server"), "{}", said(&ended));
    let server = Server::start(&folder.data());
    let Some(output) = as_nobody(&["--shutdown", "--dbpath", &data]) else { return };
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("mongod.lock") && text.contains("Permission denied"), "{text}");
    assert!(text.contains("it belongs to user 0"), "{text}");
    // The lock file may be read, but the process belongs to another user.
    let open = |path: &std::path::Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    open(&folder.data(), 0o755);
    open(&folder.data().join("mongod.lock"), 0o644);
    let Some(output) = as_nobody(&["--shutdown", "--dbpath", &data]) else { return };
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("failed to terminate the process"), "{text}");
    assert!(text.contains("it belongs to user 0"), "{text}");
    drop(server);
}

#[test]
fn the_directory_of_a_socket_that_cannot_be_created_is_named() {
    let folder = Folder::new("socket");
    let data = folder.data().display().to_string();
    let none = folder.path().join("none/run").display().to_string();
    let socket = format!("{none}/x.sock");
    for args in [["--unixSocketPrefix", &*none], ["--bind_ip", &*socket]] {
        let args = [&["--dbpath", &*data, "--port", "0"], &args[..]].concat();
        let output = crate::process::ended(&args);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let expected = format!("the directory {none} does not exist, and cannot be created");
        assert!(text.contains(&expected) && text.contains("mkdir"), "{text}");
    }
}
