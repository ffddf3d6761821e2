//! Files of the server are accessible only to its user, and files that options name by mistake stay unchanged.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::process::{Folder, Server, ended};

/// All entries below a directory with their permissions.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        found.push((path.clone(), about.mode() & 0o777));
        if about.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

#[track_caller]
fn check_closed(folder: &Path, mask: u32) {
    for (path, mode) in modes(folder) {
        assert_eq!(mode & mask, 0, "{} has mode {mode:o}", path.display());
    }
}

#[test]
fn files_are_closed_whatever_the_umask() {
    for engine in ["wiredTiger", "mmapv1"] {
        let folder = Folder::new(&format!("umask-{engine}"));
        let backup = folder.path().join("backup");
        let small = ["--smallfiles", "--noprealloc"];
        let options = ["--storageEngine", engine, small[0], small[1]];
        let run = || {
            let server = Server::start_with_umask(&folder.data(), &options, "000");
            let insert = "{insert: 'c', documents: [{_id: 1}], writeConcern: {j: true}}";
            let _ = server.client().try_run(insert);
            server
        };
        let server = run();
        check_closed(&folder.data(), 0o077);
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
        check_closed(&folder.data(), 0o077);
        // As left by a version that did not restrict them.
        for (path, mode) in modes(&folder.data()) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o055)).unwrap();
        }
        let server = run();
        check_closed(&folder.data(), 0o077);
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
        let (data, out) = (folder.data().display().to_string(), backup.display().to_string());
        assert!(ended(&["backup", "--dbpath", &data, "--out", &out]).status.success());
        check_closed(&backup, 0o077);
        let wider = [&options[..], &["--setParameter", "processUmask=027"]].concat();
        let server = Server::start_with_umask(&folder.data(), &wider, "000");
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
        check_closed(&folder.data(), 0o027);
        assert!(modes(&folder.data()).iter().any(|(_, mode)| mode & 0o040 != 0));
    }
}

fn start(folder: &Folder, more: &[&str]) -> Output {
    let data = folder.data().display().to_string();
    let args = ["--dbpath", &data, "--port", "0", "--nounixsocket"];
    ended(&[&args[..], more].concat())
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &str) {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(words), "{words} is not in {text}");
}

#[test]
fn a_log_is_closed() {
    let folder = Folder::new("closed-log");
    let log = folder.path().join("log");
    let none = folder.path().join("none").display().to_string();
    let options = ["--dbpath", &none, "--logpath", &log.display().to_string()];
    assert_eq!(ended(&options).status.code(), Some(100));
    assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_is_no_file_is_not_taken_for_one() {
    let folder = Folder::new("paths");
    let (inner, pipe) = (folder.path().join("inner"), folder.path().join("pipe"));
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("kept"), b"x").unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (inner_path, pipe_path) = (inner.display().to_string(), pipe.display().to_string());
    for more in [&["--logappend"][..], &[]] {
        let with = |path: &str| start(&folder, &[&["--logpath", path], more].concat());
        refused(&with(&inner_path), 1, "should name a file, not a directory.");
        refused(&with(&pipe_path), 1, "should name a regular file.");
        refused(&with("/dev/null"), 1, "should name a regular file.");
    }
    for path in [&inner_path, &pipe_path] {
        refused(&start(&folder, &["--pidfilepath", path]), 1, "Cannot write pid file to");
        refused(&start(&folder, &["--keyFile", path]), 1, "is not a key file");
    }
    let nowhere = folder.path().join("missing/pid").display().to_string();
    refused(&start(&folder, &["--pidfilepath", &nowhere]), 1, "No such file or directory");
    refused(&start(&folder, &["-f", &inner_path]), 2, "config file");
    refused(&start(&folder, &["-f", "/dev/zero"]), 2, "config file");
    assert!(
        inner.join("kept").exists()
            && fs::metadata("/dev/null").unwrap().file_type().is_char_device()
    );
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing was renamed");
}

#[test]
fn a_file_is_not_written_over_by_another_option() {
    let folder = Folder::new("over");
    let secret = folder.path().join("secret");
    fs::write(&secret, b"c2VjcmV0a2V5").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let path = secret.display().to_string();
    for option in ["--pidfilepath", "--logpath"] {
        refused(&start(&folder, &["--keyFile", &path, option, &path]), 2, "name the same file");
    }
    // A socket replaces only a socket.
    let data = folder.data().display().to_string();
    let both = format!("127.0.0.1,{path}");
    let args = ["--dbpath", &data, "--port", "0", "--bind_ip", &both];
    refused(&ended(&args), 48, "it is not a socket");
    let lock = folder.data().join("mongod.lock");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(&secret, &lock).unwrap();
    refused(&start(&folder, &[]), 100, "Unable to create/open the lock file");
    assert_eq!(fs::read(&secret).unwrap(), b"c2VjcmV0a2V5");
}

#[test]
fn nothing_is_left_in_shared_memory_by_an_end_in_order() {
    let folder = Folder::new("ring");
    for round in 0..2 {
        let server = Server::start(&folder.data());
        let name = folder.data().join("rocksdb/SPOOL");
        let ring = fs::read_to_string(&name)
            .ok()
            .and_then(|text| Some(PathBuf::from(text.lines().next()?.strip_prefix("ring: ")?)));
        let insert = format!("{{insert: 'c', documents: [{{_id: {round}}}]}}");
        // The client stays connected: its connection must not keep the ring buffer alive.
        let mut client = server.client();
        assert!(client.try_run(&insert).is_some());
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
        assert!(!name.exists() && ring.is_none_or(|ring| !ring.exists()));
    }
}

#[test]
fn a_folder_that_is_not_nagis_is_left_as_it_is() {
    let folder = Folder::new("strange");
    let (page, tool) = (folder.data().join("www/index.html"), folder.data().join("tool"));
    fs::create_dir_all(page.parent().unwrap()).unwrap();
    for (path, mode) in [(&page, 0o644), (&tool, 0o755)] {
        fs::write(path, b"x").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    fs::write(folder.data().join("WiredTiger"), b"x").unwrap();
    let refused = ended(&["--dbpath", &folder.data().display().to_string(), "--port", "0"]);
    assert_eq!(refused.status.code(), Some(100), "{refused:?}");
    assert_eq!((mode(&page), mode(&tool)), (0o644, 0o755));
    fs::remove_file(folder.data().join("WiredTiger")).unwrap();
    for _ in 0..2 {
        let server = Server::start(&folder.data());
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
    }
    assert_eq!((mode(&page), mode(&tool)), (0o644, 0o755));
    assert_eq!(mode(page.parent().unwrap()), 0o755);
}
