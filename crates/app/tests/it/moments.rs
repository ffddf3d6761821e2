//! Restores of moments, as far as they depend on what happened while the base copy was made.

use std::path::PathBuf;
use std::process::Output;

use nagi_bson::{DocBuf, Value};

use crate::process::{Client, Folder, Server, ended};

/// A member of a replica set, and an archive of its log.
struct Member {
    folder: Folder,
    server: Option<Server>,
    client: Client,
}

impl Member {
    fn start(name: &str) -> Member {
        let folder = Folder::new(name);
        let server = Server::start_with(&folder.data(), &["--replSet", "rs"]);
        let client = server.client();
        let mut member = Member { folder, server: Some(server), client };
        member.admin("{replSetInitiate: 1}");
        member
    }

    fn restart(&mut self, options: &[&str]) {
        let server = self.server.take().unwrap();
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
        let server = Server::start_with(&self.folder.data(), options);
        self.client = server.client();
        self.server = Some(server);
    }

    fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.server.as_ref().unwrap().port)
    }

    fn admin(&mut self, command: &str) -> DocBuf {
        done(self.client.try_run_on("admin", command).unwrap())
    }

    fn run(&mut self, command: &str) -> DocBuf {
        done(self.client.run(command))
    }

    fn insert(&mut self, name: &str, id: i32) {
        self.run(&format!("{{insert: '{name}', documents: [{{_id: {id}}}]}}"));
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    /// Runs `nagi backup --archive` with a flag.
    fn back_up(&self, flag: &str) -> Output {
        let (archive, uri) = (self.archive(), self.uri());
        ended(&["backup", "--archive", &archive.display().to_string(), "--uri", &uri, flag])
    }

    fn restore(&self, to: &str, name: &str) -> Output {
        let (from, folder) = (self.archive(), self.folder.path().join(name));
        let (from, folder) = (from.display().to_string(), folder.display().to_string());
        ended(&["restore", "--from", &from, "--to", to, "--dbpath", &folder])
    }

    fn restored(&self, name: &str) -> (Server, Client) {
        let server = Server::start(&self.folder.path().join(name));
        let client = server.client();
        (server, client)
    }

    /// The files in a folder of the archive, sorted.
    fn files(&self, folder: &str) -> Vec<PathBuf> {
        let Ok(list) = std::fs::read_dir(self.archive().join(folder)) else { return Vec::new() };
        let mut files: Vec<_> = list.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn done(reply: DocBuf) -> DocBuf {
    assert!(reply.get("ok").is_truthy(), "{reply:?}");
    reply
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(output: &Output, text: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(text), "{said}");
}

#[test]
fn a_missing_segment_is_noticed_in_any_case() {
    let mut member = Member::start("missing");
    succeeds(&member.back_up("--newBase"));
    for id in 0..3 {
        member.insert("c", id);
        succeeds(&member.back_up("--once"));
    }
    let segments = member.files("log");
    std::fs::remove_file(&segments[segments.len() - 2]).unwrap();
    refused(&member.restore("latest", "restored"), "is not archived");
    // What is before the gap is restored by its time.
    let name = segments[0].file_stem().unwrap().to_str().unwrap().to_owned();
    let last = name.split_once('_').unwrap().1.split_once('-').unwrap();
    let number = |text: &str| text.parse::<u32>().unwrap();
    let to = format!("{},{}", number(last.0), number(last.1));
    succeeds(&member.restore(&to, "restored"));
}

#[test]
fn base_copies_stay_as_they_are() {
    let mut member = Member::start("bases");
    succeeds(&member.back_up("--newBase"));
    let again = succeeds(&member.back_up("--newBase"));
    assert!(again.contains("nothing has changed since the base copy of"), "{again}");
    assert_eq!(member.files("base").len(), 1);
    member.insert("c", 1);
    succeeds(&member.back_up("--once"));
    succeeds(&member.back_up("--newBase"));
    member.insert("c", 2);
    let said = succeeds(&member.back_up("--once"));
    assert!(said.contains("log archived up to"), "{said}");
    // One that cannot be read leaves the others.
    let bases = member.files("base");
    assert_eq!(bases.len(), 2);
    let manifest = bases[1].join("nagi.backup");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, "{").unwrap();
    let output = member.restore("latest", "first");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used"), "{output:?}");
    let said = succeeds(&output);
    assert!(said.contains(", written at 20"), "{said}");
    // An error of reading tells nothing about the copy: only a restore does with the others.
    std::fs::File::create(&manifest).unwrap().set_len(257 << 20).unwrap();
    let archive = member.archive().display().to_string();
    refused(&ended(&["backup", "--prune", &archive, "--keepBases", "1"]), "which is too much");
    refused(&member.back_up("--once"), "which is too much");
    succeeds(&member.restore("latest", "other"));
    // One whose files are of another time is refused.
    let first = std::fs::read_to_string(bases[0].join("nagi.backup")).unwrap();
    let field = |text: &str, name: &str| {
        let at = text.find(&format!("\"{name}\":")).unwrap();
        text[at..].split_once("}}").unwrap().0.to_owned()
    };
    let text = text.replace(&field(&text, "logTo"), &field(&first, "logTo"));
    let text = text.replace(&field(&text, "logFrom"), &field(&first, "logFrom"));
    std::fs::write(&manifest, text).unwrap();
    std::fs::remove_dir_all(&bases[0]).unwrap();
    refused(&member.restore("latest", "second"), "does not fit its log");
}

#[test]
fn an_archive_is_of_one_replica_set() {
    let first = Member::start("one-set");
    succeeds(&first.back_up("--newBase"));
    succeeds(&first.back_up("--once"));
    let second = Member::start("other-set");
    let archive = first.archive().display().to_string();
    let uri = second.uri();
    let back_up = |flag| ended(&["backup", "--archive", &archive, "--uri", &uri, flag]);
    for flag in ["--once", "--newBase"] {
        refused(&back_up(flag), "the server belongs to another one");
    }
    // Nor is it accepted if the archive does not tell its set.
    std::fs::write(first.files("base")[0].join("nagi.backup"), "{").unwrap();
    for flag in ["--once", "--newBase"] {
        refused(&back_up(flag), "it is not known which replica set it is of");
    }
}

#[test]
fn a_run_without_the_set_is_a_gap() {
    let mut member = Member::start("unlogged");
    succeeds(&member.back_up("--newBase"));
    member.insert("c", 1);
    succeeds(&member.back_up("--once"));
    // A run that writes nothing is none.
    member.restart(&[]);
    member.restart(&["--replSet", "rs"]);
    succeeds(&member.back_up("--once"));
    for options in [&[][..], &["--replSet", "rs"]] {
        member.restart(options);
        member.insert("c", if options.is_empty() { 2 } else { 3 });
    }
    refused(&member.back_up("--once"), "A new base copy is needed");
    succeeds(&member.back_up("--newBase"));
    let output = member.back_up("--once");
    succeeds(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a part of the log is missing; archiving continues"), "{output:?}");
    succeeds(&member.restore("latest", "restored"));
    assert_eq!(member.restored("restored").1.count("c"), 3);
}

fn insert_entry(ns: &str, id: i32) -> String {
    format!("{{op: 'i', ns: '{ns}', o: {{_id: {id}}}}}")
}

#[test]
fn a_temporary_collection_of_the_base_copy_is_renamed() {
    let mut member = Member::start("temporary");
    member.insert("out", 1);
    // As $out makes one: it is filled, and then takes the place of the target.
    member.admin("{applyOps: [{op: 'c', ns: 'test.$cmd', o: {create: 'tmp.x', temp: true}}]}");
    member.admin(&format!("{{applyOps: [{}]}}", insert_entry("test.tmp.x", 2)));
    member.admin("{setUserWriteBlockMode: 1, global: true}");
    succeeds(&member.back_up("--newBase"));
    member.admin("{setUserWriteBlockMode: 1, global: false}");
    member.admin(&format!("{{applyOps: [{}]}}", insert_entry("test.tmp.x", 3)));
    member.admin("{renameCollection: 'test.tmp.x', to: 'test.out', dropTarget: true}");
    succeeds(&member.back_up("--once"));
    succeeds(&member.restore("latest", "restored"));
    let (_server, mut client) = member.restored("restored");
    assert_eq!(client.count("out"), 2);
    let found = client.run("{find: 'out', filter: {_id: {$in: [2, 3]}}}");
    assert!(found.as_doc().to_string().contains("_id: 3"), "{found:?}");
    assert_eq!(client.run("{count: 'tmp.x'}").get("n"), Value::Int32(0));
}

#[test]
fn a_copy_in_progress_keeps_its_files_and_its_log() {
    let mut member = Member::start("in-progress");
    for id in 0..2 {
        succeeds(&member.back_up("--newBase"));
        member.insert("c", id);
        succeeds(&member.back_up("--once"));
    }
    succeeds(&member.back_up("--newBase"));
    // The second one is in progress: it has no list of files yet.
    let (bases, segments) = (member.files("base"), member.files("log"));
    std::fs::remove_file(bases[1].join("nagi.backup")).unwrap();
    let archive = member.archive().display().to_string();
    let prune = || succeeds(&ended(&["backup", "--prune", &archive, "--keepBases", "1"]));
    prune();
    assert_eq!(member.files("base"), bases[1..]);
    assert_eq!(member.files("log"), segments[1..], "the second one needs the rest");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3600);
    let mut folders = vec![bases[1].clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => std::fs::File::open(path).unwrap().set_modified(old).unwrap(),
            }
        }
    }
    prune();
    assert_eq!(member.files("base"), bases[2..], "nothing was written to it for a day");
    assert!(member.files("log").is_empty());
}

#[test]
fn base_copies_without_their_log_do_not_count() {
    let mut member = Member::start("unlogged-base");
    succeeds(&member.back_up("--newBase"));
    member.insert("c", 1);
    succeeds(&member.back_up("--once"));
    succeeds(&member.back_up("--newBase"));
    // As if the log of the second one had not been archived: it says that it needs more than there is.
    let bases = member.files("base");
    let manifest = bases[1].join("nagi.backup");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let (head, rest) = text.split_once("\"logTo\":").unwrap();
    let (stamp, tail) = rest.split_once("}}").unwrap();
    let (_, number) = stamp.rsplit_once("\"i\":").unwrap();
    let later = stamp.replace(&format!("\"i\":{number}"), "\"i\":4000000000");
    std::fs::write(&manifest, format!("{head}\"logTo\":{later}}}}}{tail}")).unwrap();
    let archive = member.archive().display().to_string();
    succeeds(&ended(&["backup", "--prune", &archive, "--keepBases", "1"]));
    assert_eq!(member.files("base"), bases, "the first one is the newest that can be restored");
    let output = member.restore("latest", "restored");
    succeeds(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used"), "{output:?}");
    assert_eq!(member.restored("restored").1.count("c"), 1);
}
