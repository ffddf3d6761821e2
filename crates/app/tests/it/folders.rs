//! Data directories that cannot be used: MongoDB's error texts and exit codes.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::process::{Folder, Server, ended, nagi};

const NOBODY: u32 = 65_534;

fn start(data: &Path) -> Output {
    let data = data.display().to_string();
    ended(&["--dbpath", &data, "--port", "0", "--nounixsocket"])
}

#[track_caller]
fn check(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

/// A tmpfs, if this process may mount one.
struct Mount(Folder);

impl Mount {
    fn new(name: &str, options: &str) -> Option<Mount> {
        let folder = Folder::new(name);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        Some(Mount(folder))
    }

    fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]).arg(self.0.path());
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn no_folder_and_no_folder_at_all() {
    let folder = Folder::new("file");
    check(&start(&folder.path().join("missing")), 100, &["NonExistentPath: Data directory"]);
    let file = folder.path().join("plain");
    std::fs::write(&file, b"x").unwrap();
    check(&start(&file), 100, &["NotADirectory", "is a file, not a directory"]);
}

#[test]
fn a_folder_without_permission() {
    let folder = Folder::new("locked");
    let data = folder.data().display().to_string();
    let mut command = nagi();
    command.args(["--dbpath", &data, "--port", "0", "--nounixsocket"]);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    } else {
        use std::os::unix::fs::PermissionsExt;
        let read_only = std::fs::Permissions::from_mode(0o555);
        std::fs::set_permissions(folder.data(), read_only).unwrap();
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: nobody may not run the program here");
        return;
    };
    check(&output, 100, &["IllegalOperation", "mongod.lock (Permission denied"]);
}

#[test]
fn a_read_only_disk() {
    let Some(mount) = Mount::new("readonly", "size=64m") else { return };
    std::fs::create_dir_all(mount.0.data()).unwrap();
    let server = Server::start(&mount.0.data());
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    mount.remount("ro");
    check(&start(&mount.0.data()), 100, &["IllegalOperation", "on a read-only directory"]);
    mount.remount("rw");
}

#[test]
fn a_disk_that_is_full_at_the_start() {
    let Some(mount) = Mount::new("brimful", "size=1m") else { return };
    std::fs::create_dir_all(mount.0.data()).unwrap();
    let ballast = mount.0.path().join("ballast");
    let mut file = std::fs::File::create(ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    check(&start(&mount.0.data()), 100, &["OutOfDiskSpace"]);
}

#[test]
fn a_folder_of_another_engine() {
    let folder = Folder::new("other");
    std::fs::write(folder.data().join("WiredTiger"), b"WiredTiger 11").unwrap();
    check(&start(&folder.data()), 100, &["another server", "WiredTiger", "mongodump"]);
    std::fs::remove_file(folder.data().join("WiredTiger")).unwrap();
    std::fs::write(folder.data().join("nagi.storage"), b"engine: cuneiform\nformat: 1\n").unwrap();
    check(&start(&folder.data()), 100, &["was created by the 'cuneiform' storage engine"]);
}

/// Runs a program that must exit by itself.
fn ends(args: &[&str]) -> Output {
    let child = nagi().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            panic!("{args:?} waits for the other end of a pipe");
        }
    }
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A pipe takes the place of each file that a start, a repair, the doctor, a backup or a restore reads.
#[test]
fn a_pipe_in_the_place_of_a_file_stops_nothing() {
    for (engine, inner) in [("rocks", "rocksdb"), ("lmdb", "lmdb")] {
        let folder = Folder::new(&format!("pipes-{engine}"));
        let path = folder.data().display().to_string();
        let server = Server::start_with(&folder.data(), &["--storageEngine", engine]);
        server.client().run("{insert: 'c', documents: [{_id: 1}], writeConcern: {j: true}}");
        assert_eq!(server.client().count("c"), 1);
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
        let inside = std::fs::read_dir(folder.data().join(inner)).unwrap();
        let mut names: Vec<_> = inside.map(|entry| entry.unwrap().path()).collect();
        names.push(folder.data().join("free_space.txt"));
        names.push(folder.data().join("nagi.storage"));
        names.push(folder.data().join("nagi.storage.tmp"));
        for name in names.iter().filter(|name| !name.is_dir()) {
            let kept = folder.path().join("kept");
            let is_there = name.exists();
            if is_there {
                std::fs::rename(name, &kept).unwrap();
            }
            pipe(name);
            let serve = ["--dbpath", &path, "--port", "0", "--nounixsocket"];
            for more in [&[][..], &["--repair"]] {
                let output = ends(&[&serve, more].concat());
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(text.contains("is not a regular file"), "{}: {text}", name.display());
                assert_ne!(output.status.code(), Some(0), "{}", name.display());
            }
            if name.ends_with("free_space.txt") {
                ends(&["doctor", "--dbpath", &path]);
            }
            std::fs::remove_file(name).unwrap();
            if is_there {
                std::fs::rename(&kept, name).unwrap();
            }
        }
        assert_eq!(Server::start(&folder.data()).client().count("c"), 1, "nothing was changed");
        pipes_in_a_backup(&folder, &path, inner);
    }
}

fn pipes_in_a_backup(folder: &Folder, data: &str, inner: &str) {
    let at = |name: &str| folder.path().join(name);
    let (backup, restored) =
        (at("backup").display().to_string(), at("restored").display().to_string());
    let made = ends(&["backup", "--dbpath", data, "--out", &backup]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let inside = std::fs::read_dir(at("backup/data").join(inner)).unwrap();
    let first = inside.map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    for name in [at("backup/nagi.backup"), first] {
        std::fs::rename(&name, at("kept")).unwrap();
        pipe(&name);
        for args in [
            &["backup", "--verify", &backup][..],
            &["restore", "--from", &backup, "--dbpath", &restored],
        ] {
            let output = ends(args);
            let text =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(text.contains("is not a regular file"), "{args:?}: {text}");
            assert_ne!(output.status.code(), Some(0), "{args:?}");
        }
        std::fs::remove_file(&name).unwrap();
        std::fs::rename(at("kept"), &name).unwrap();
        let _ = std::fs::remove_dir_all(at("restored"));
    }
}
