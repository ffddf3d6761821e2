//! `nagi doctor` as users and scripts run it, and the warnings about the machine when a server starts.

use std::collections::BTreeSet;
use std::process::Stdio;

use nagi_bson::{Doc, DocBuf, Value, json};

use crate::process::{Folder, Server, ended, nagi};

/// Exit code and document of `nagi doctor --json`.
fn report(args: &[&str]) -> (Option<i32>, DocBuf) {
    let output = ended(&[&["doctor", "--json"], args].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), json::parse(text.trim()).unwrap())
}

fn findings(report: &DocBuf) -> Vec<Doc<'_>> {
    let Value::Array(findings) = report.get("findings") else { panic!("{report:?}") };
    findings.iter().filter_map(|value| value.as_doc()).collect()
}

#[test]
fn the_exit_code_is_the_worst_finding() {
    let folder = Folder::new("doctor");
    let data = folder.data().display().to_string();
    let (code, report) = report(&["--quick", "--dbpath", &data]);
    let worst = findings(&report).iter().fold(0, |worst, finding| {
        let code = match finding.get("severity") {
            Value::String("critical") => 3,
            Value::String("warning") => 1,
            _ => 0,
        };
        assert!(matches!(finding.get("fix"), Value::String(text) if !text.is_empty()));
        worst.max(code)
    });
    assert_eq!((code, report.get("exitCode")), (Some(worst), Value::Int32(worst)));
    assert_eq!(report.get("measured"), Value::Missing);
    let text = ended(&["doctor", "--quick", "--dbpath", &data]);
    assert_eq!(text.status.code(), code);
    assert!(String::from_utf8_lossy(&text.stdout).contains("not known days_until_full"));
}

#[test]
fn a_missing_folder_is_critical_and_wrong_usage_is_2() {
    let (code, report) = report(&["--dbpath", "/does/not/exist"]);
    assert_eq!(code, Some(3));
    assert_eq!(findings(&report)[0].get("check"), Value::String("data_folder"));
    let folder = Folder::new("config");
    let config = folder.path().join("mongod.conf");
    std::fs::write(&config, "storage:\n  dbPath: /does/not/exist\n").unwrap();
    assert_eq!(ended(&["doctor", "-f", config.to_str().unwrap()]).status.code(), Some(3));
    assert_eq!(ended(&["doctor", "-f", "/does/not/exist"]).status.code(), Some(2));
    assert_eq!(ended(&["doctor", "--dbpath"]).status.code(), Some(2));
    assert_eq!(ended(&["doctor", "now"]).status.code(), Some(2));
}

/// The configuration decides whether the disk's read-ahead matters.
#[test]
fn the_setting_of_direct_io_is_read() {
    let folder = Folder::new("direct");
    let data = folder.data().display().to_string();
    let config = folder.path().join("mongod.conf");
    let found = |setting: &str| {
        std::fs::write(&config, format!("storage:\n  dbPath: {data}\n  {setting}\n")).unwrap();
        let (_, report) = report(&["--quick", "-f", config.to_str().unwrap()]);
        format!("{:?}", report.get("good").as_doc().map(|good| good.get("read_ahead")))
            + &format!("{:?}", report.get("findings"))
    };
    let (direct, cached) = (found("directIO: true"), found("directIO: false"));
    if direct.contains("reads nothing ahead") {
        assert!(cached.contains("through the page cache"), "{cached}");
    } else {
        // The disk reads little ahead, or is not known.
        assert_eq!(direct, cached);
    }
    assert_eq!(found("engine: mmapv1"), cached);
}

#[test]
fn the_test_of_the_disk_leaves_nothing_even_when_killed() {
    let folder = Folder::new("measured");
    let data = folder.data();
    let path = data.display().to_string();
    let (_, report) = report(&["--dbpath", &path]);
    let Value::Doc(measured) = report.get("measured") else { panic!("{report:?}") };
    assert_eq!(measured.get("problem"), Value::Missing, "{report:?}");
    assert!(matches!(measured.get("allocation"), Value::Array(_)));

    let mut child =
        nagi().args(["doctor", "--dbpath", &path]).stdout(Stdio::null()).spawn().unwrap();
    let files = format!("/proc/{}/fd", child.id());
    // Wait until the test file is open, or the test has finished.
    let in_folder = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = entry.and_then(|entry| std::fs::read_link(entry.path()));
        target.is_ok_and(|target| target.starts_with(&data))
    };
    while child.try_wait().unwrap().is_none()
        && !std::fs::read_dir(&files).into_iter().flatten().any(in_folder)
    {
        std::thread::yield_now();
    }
    let _ = child.kill();
    child.wait().unwrap();
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
}

#[test]
fn a_server_warns_of_what_the_doctor_finds() {
    let folder = Folder::new("warns");
    let server = Server::start(&folder.data());
    let reply = server.client().try_run_on("admin", "{getLog: 'startupWarnings'}").unwrap();
    let Value::Array(lines) = reply.get("log") else { panic!("{reply:?}") };
    let mut logged = BTreeSet::new();
    for line in lines.iter() {
        let Value::String(line) = line else { panic!("{line:?}") };
        let line = json::parse(line).unwrap();
        let id = nagi_bson::number::as_i64_exact(line.get("id")).unwrap();
        logged.insert(id);
    }
    // The warnings about the configuration: no access control, root, bound to localhost.
    assert!(logged.remove(&22_120));
    logged.remove(&22_138);
    logged.remove(&22_140);
    let data = folder.data().display().to_string();
    let (_, report) = report(&["--quick", "--dbpath", &data]);
    let found = findings(&report).into_iter().map(|finding| finding.get("logId"));
    let found: BTreeSet<_> = found.filter_map(nagi_bson::number::as_i64_exact).collect();
    assert_eq!(logged, found, "{report:?}");
    assert!(matches!(report.get("serverPid"), Value::Int32(_) | Value::Int64(_)));
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let record = std::fs::read_to_string(folder.data().join("free_space.txt")).unwrap();
    assert!(record.starts_with("nagi free space 1\n") && record.lines().count() == 2, "{record}");
}

/// What a start would refuse is told without one, and nothing is changed by looking.
#[test]
fn files_that_are_not_those_of_the_shutdown_are_critical() {
    let folder = Folder::new("doctor-files");
    let data = folder.data();
    let path = data.display().to_string();
    let found = || {
        let (code, report) = report(&["--quick", "--dbpath", &path]);
        let all = findings(&report);
        let found = all.iter().find(|one| one.get("check") == Value::String("data_files"));
        let text = |name: &str| found.map(|one| one.get(name).as_str().unwrap().to_owned());
        let unknown = report.get("notKnown").as_doc().unwrap().get("data_files");
        (code, text("what"), text("fix"), unknown.as_str().map(str::to_owned))
    };
    // A new directory.
    assert_eq!(found().1, None);
    let server = Server::start(&data);
    server.client().run("{insert: 'c', documents: [{_id: 1}]}");
    assert_eq!(found().3.as_deref(), Some("a server uses the data directory"));
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let good = found();
    assert!(good.0 != Some(3) && good.1.is_none() && good.3.is_none(), "{good:?}");
    let entries = std::fs::read_dir(data.join("rocksdb")).unwrap();
    let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let of = |part: &str| paths.iter().find(|path| path.to_string_lossy().contains(part)).unwrap();
    for (file, how) in
        [(".sst", "missing"), (".sst", "cut"), ("MANIFEST", "flipped"), ("CURRENT", "missing")]
    {
        let file = of(file);
        let bytes = std::fs::read(file).unwrap();
        match how {
            "missing" => std::fs::remove_file(file).unwrap(),
            "cut" => std::fs::write(file, &bytes[..bytes.len() - 1]).unwrap(),
            _ => {
                let mut other = bytes.clone();
                other[bytes.len() / 2] ^= 1;
                std::fs::write(file, other).unwrap();
            }
        }
        let (code, what, fix, _) = found();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(what.as_ref().is_some_and(|what| what.contains(name)), "{how}: {what:?}");
        assert!(code == Some(3) && fix.unwrap().contains("--repair"), "{name} {how}");
        // A start says the same.
        let refused = ended(&["--dbpath", &path, "--nounixsocket", "--port", "0"]);
        assert_eq!(refused.status.code(), Some(14), "{name} {how}");
        std::fs::write(file, bytes).unwrap();
    }
    assert_eq!(found(), good);
    drop(Server::start(&data));
    // It was killed.
    assert!(found().3.is_some_and(|why| why.contains("no record")));
}
