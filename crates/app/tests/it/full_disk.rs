//! A disk that fills up, as clients see it: on a small tmpfs, if this process may mount one.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nagi_bson::Value;

use crate::process::{Client, Folder, Server};

struct Mount(Folder);

impl Mount {
    fn new(megabytes: u32) -> Option<Mount> {
        let folder = Folder::new("full");
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        std::fs::create_dir_all(folder.data()).unwrap();
        Some(Mount(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.0.path()).status();
    }
}

/// Inserts documents of 16 KB until one is refused. Returns the next `_id` and the error code.
fn fill(client: &mut Client, first: i64) -> (i64, Value<'static>) {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64 ^ first as u64;
    for id in first.. {
        let pad = noise(&mut seed);
        let insert = format!("{{insert: 'c', documents: [{{_id: {id}, pad: '{pad}'}}]}}");
        let reply = client.run(&insert);
        if reply.get("n") == Value::Int32(1) {
            continue;
        }
        let error = reply.get("writeErrors").as_array().map(|errors| errors.get(0));
        let code = match error {
            Some(Value::Doc(error)) => error.get("code"),
            _ => reply.get("code"),
        };
        let Value::Int32(code) = code else { panic!("{reply:?}") };
        return (id, Value::Int32(code));
    }
    unreachable!("ids do not end")
}

/// 16 KB of text that does not compress well.
fn noise(seed: &mut u64) -> String {
    let mut text = String::with_capacity(16_000);
    while text.len() < 16_000 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        text.push_str(&format!("{seed:x}"));
    }
    text
}

#[test]
fn writes_stop_with_a_code_and_go_on_when_there_is_room() {
    let Some(mount) = Mount::new(150) else { return };
    let ballast = mount.path().join("ballast");
    std::fs::write(&ballast, vec![0; 60 << 20]).unwrap();
    let server = Server::start(&mount.0.data());
    let mut client = server.client();
    let (stored, code) = fill(&mut client, 0);
    assert_eq!(code, Value::Int32(14031));
    assert!(stored > 100, "{stored}");
    // Reads continue, and no acknowledged write is lost.
    assert_eq!(client.count("c"), stored);
    let last = client.run(&format!("{{find: 'c', filter: {{_id: {}}}}}", stored - 1));
    assert_eq!(last.get("ok"), Value::Double(1.0));
    std::fs::remove_file(&ballast).unwrap();
    // The server looks at the space from time to time.
    let until = Instant::now() + Duration::from_secs(10);
    let (more, code) = loop {
        let filled = fill(&mut client, stored);
        if filled.0 > stored || Instant::now() > until {
            break filled;
        }
    };
    assert!(more > stored + 100, "{more}");
    assert_eq!(code, Value::Int32(14031));
    drop(client);
    server.signal("-KILL");
    assert_eq!(server.wait(), None);
    let server = Server::start(&mount.0.data());
    // Without `j`, a crash may lose the last commit interval.
    let count = server.client().count("c");
    assert!(count > stored && count <= more, "{count} of {more}");
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}
