//! Start and shutdown.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use nagi_bson::{Value, json};

use crate::process::{Client, Folder, Server, ended, nagi};

#[test]
fn bad_options_are_refused() {
    for (args, text) in [
        (&["--auditCompressionMode", "zstd"][..], "--auditCompressionMode"),
        (&["--nonsense"], "unrecognised option '--nonsense'"),
        (&["serve", "-f", "/does/not/exist"], "Error opening config file"),
        (&["dance"], "unknown command 'dance'"),
        (&["serv"], "did you mean 'serve'?"),
        (&["--setParameter", "ttlMonitorEnable=1"], "did you mean 'ttlMonitorEnabled'?"),
    ] {
        let output = ended(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(text), "{output:?}");
    }
    let [help, flag] = ["help", "--help"].map(|arg| ended(&[arg]));
    assert!(help.status.success() && help.stdout == flag.stdout, "{help:?}");
    for args in [["version"], ["--version"]] {
        let said = String::from_utf8_lossy(&ended(&args).stdout).into_owned();
        assert!(said.starts_with("db version v8.0."), "{said}");
    }
    assert_eq!(ended(&["--dbpath", "/does/not/exist"]).status.code(), Some(100));
}

#[test]
fn one_process_a_folder_and_one_a_port() {
    let (folder, other) = (Folder::new("one"), Folder::new("other"));
    let server = Server::start(&folder.data());
    let port = server.port.to_string();
    let data = folder.data().display().to_string();
    let second = ended(&["--dbpath", &data, "--port", "0", "--nounixsocket"]);
    assert_eq!(second.status.code(), Some(100));
    assert!(String::from_utf8_lossy(&second.stdout).contains("DBPathInUse"));
    let data = other.data().display().to_string();
    let second = ended(&["--dbpath", &data, "--port", &port, "--nounixsocket"]);
    assert_eq!(second.status.code(), Some(48));
}

#[test]
fn what_was_written_is_there_after_every_kind_of_end() {
    let folder = Folder::new("ends");
    let ends: [(&str, Option<i32>); 3] = [("-TERM", Some(0)), ("-INT", Some(0)), ("-KILL", None)];
    for (round, (signal, code)) in ends.into_iter().enumerate() {
        let server = Server::start(&folder.data());
        let mut client = server.client();
        assert_eq!(client.count("c"), round as i64);
        let reply = client.run(&format!(
            "{{insert: 'c', documents: [{{_id: {round}}}], writeConcern: {{j: true}}}}"
        ));
        assert_eq!(reply.get("n"), Value::Int32(1), "{reply:?}");
        server.signal(signal);
        assert_eq!(server.wait(), code, "{signal}");
        let lock = std::fs::read(folder.data().join("mongod.lock")).unwrap();
        assert_eq!(lock.is_empty(), code.is_some(), "{signal}");
    }
    let server = Server::start(&folder.data());
    let mut client = server.client();
    assert_eq!(client.count("c"), 3);
    let _ = client.try_run("{shutdown: 1, $db: 'admin'}");
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}

/// What a program does that starts a server for its tests: the server's port is in its configuration though the system
/// selected it, and the server ends with the program.
#[test]
fn a_server_for_tests_has_a_port_and_ends_with_its_input() {
    let folder = Folder::new("input");
    let options = [
        "--storageEngine",
        "ephemeralForTest",
        "--replSet",
        "rs",
        "--initiate",
        "--bind_ip",
        "127.0.0.1",
    ];
    let mut server =
        Server::start_with(&folder.data(), &[&options[..], &["--stopAtEndOfInput"]].concat());
    let mut client = server.client();
    let hello = client.run("{hello: 1}");
    let primary = format!("127.0.0.1:{}", server.port);
    assert_eq!(hello.get("primary").as_str(), Some(primary.as_str()), "{hello:?}");
    assert_eq!(client.run("{insert: 'c', documents: [{_id: 1}]}").get("n"), Value::Int32(1));
    server.end_input();
    assert_eq!(server.wait(), Some(0));
    assert_eq!(
        std::fs::read_dir(folder.data()).unwrap().count(),
        0,
        "files of an engine in memory"
    );
    let output = ended(&["--stopAtEndOfInput", "--fork", "--syslog"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// `maxLogSizeKB` limits each attribute of a log line; the line says what is missing.
#[test]
fn long_attributes_of_log_lines_are_cut() {
    let folder = Folder::new("cut");
    let log = folder.path().join("log");
    let data = folder.data().display().to_string();
    let started = ended(
        &[
            &[
                "--fork",
                "--port",
                "0",
                "--nounixsocket",
                "--wiredTigerCacheSizeGB",
                "0.25",
                "--slowms",
                "0",
            ][..],
            &[
                "--logpath",
                &log.display().to_string(),
                "--dbpath",
                &data,
                "--setParameter",
                "maxLogSizeKB=1",
            ],
        ]
        .concat(),
    );
    assert!(started.status.success(), "{started:?}");
    let lines = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().map(|line| json::parse(line).unwrap()).collect::<Vec<_>>()
    };
    let port = lines().iter().find(|line| line.get("id") == Value::Int32(23016)).map(|line| {
        nagi_bson::number::as_i64_exact(line.get("attr").as_doc().unwrap().get("port")).unwrap()
    });
    let mut client = Client::to(u16::try_from(port.unwrap()).unwrap());
    let list: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    for kib in ["1", "0", "10"] {
        let set = format!("{{setParameter: 1, maxLogSizeKB: {kib}}}");
        assert_eq!(client.try_run_on("admin", &set).unwrap().get("ok"), Value::Double(1.0));
        client.run(&format!("{{find: 'c', filter: {{a: {{$in: [{}]}}}}}}", list.join(", ")));
    }
    assert!(ended(&["--shutdown", "--dbpath", &data]).status.success());
    let lines = lines();
    let is_find = |line: &&nagi_bson::DocBuf| {
        let command = line.get("attr").as_doc().map(|attr| attr.get("command"));
        command.is_some_and(|command| command.as_doc().is_some_and(|c| c.element("find").is_some()))
    };
    let finds: Vec<_> = lines.iter().filter(is_find).collect();
    assert_eq!(finds.len(), 3);
    assert!(finds[1..].iter().all(|line| line.get("truncated").is_missing()));
    let size = finds[0].get("size").as_doc().unwrap().get("command");
    assert!(nagi_bson::number::as_i64_exact(size).is_some_and(|size| size > 2000), "{size}");
    let truncated = finds[0].get("truncated").as_doc().unwrap().to_string();
    assert!(truncated.starts_with("{ command: { filter: { a: { $in: { "), "{truncated}");
    let command = json::to_relaxed(finds[0].get("attr").as_doc().unwrap());
    assert!(command.contains("\"$in\":[0,1,2,") && !command.contains(",299"), "{command}");
}

/// The system selects another port at each start, and the only member's configuration follows. A port that was given is
/// left alone: the configuration may name another one on purpose.
#[test]
fn the_only_member_follows_the_port_that_the_system_selects() {
    let folder = Folder::new("follows");
    let options = ["--replSet", "rs", "--initiate", "--bind_ip", "127.0.0.1"];
    let mut versions = Vec::new();
    for _ in 0..3 {
        let server = Server::start_with(&folder.data(), &options);
        let mut client = server.client();
        let hello = client.run("{hello: 1}");
        let own = format!("127.0.0.1:{}", server.port);
        for name in ["primary", "me"] {
            assert_eq!(hello.get(name).as_str(), Some(&*own), "{hello:?}");
        }
        assert!(
            matches!(hello.get("hosts"), Value::Array(hosts) if hosts.get(0).as_str() == Some(&*own))
        );
        versions.push(hello.get("setVersion").to_string());
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
    }
    let server = Server::start_with(&folder.data(), &options[..2]);
    let hello = server.client().run("{hello: 1}");
    assert_eq!(hello.get("setVersion").to_string(), versions[2], "without --initiate");
}

/// Options that libraries pass which start a server for tests, on each engine.
#[test]
fn the_options_of_libraries_for_tests_are_taken() {
    for engine in ["wiredTiger", "mmapv1", "inMemory"] {
        let folder = Folder::new(&format!("libraries-{engine}"));
        let options = ["--storageEngine", engine, "--noauth", "--syncdelay=0", "--nojournal"];
        let server = Server::start_with(&folder.data(), &options);
        let mut client = server.client();
        client.run("{insert: 'c', documents: [{_id: 1}]}");
        assert_eq!(client.count("c"), 1);
        server.signal("-INT");
        assert_eq!(server.wait(), Some(0), "{engine}");
        if engine != "inMemory" {
            assert_eq!(Server::start(&folder.data()).client().count("c"), 1, "{engine}");
        }
    }
}

/// The parent process prints why the child did not start, and exits with its exit code.
#[test]
fn a_forked_start_that_fails_says_why() {
    let folder = Folder::new("forked");
    let log = folder.path().join("log").display().to_string();
    let data = folder.data().display().to_string();
    for (args, code, text) in [
        (&["--dbpath", "/does/not/exist"][..], 100, "Data directory /does/not/exist not found"),
        (&["--dbpath", &data, "--setParameter", "noSuch=1"], 2, "Unknown --setParameter 'noSuch'"),
        (&["--dbpath", &data, "--profile", "7"], 2, "expected one of 0, 1, 2, all, off, slowOp"),
    ] {
        let usual = ["--fork", "--logpath", &log, "--port", "0", "--nounixsocket"];
        let output = ended(&[&usual[..], args].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(text), "{said}");
    }
}

/// Warnings that a shell shows tell what applies instead of options.
#[test]
fn options_without_effect_are_startup_warnings() {
    let folder = Folder::new("instead");
    let more = ["--nojournal", "--directoryperdb", "--profile", "2", "--notablescan"];
    let server = Server::start_with(&folder.data(), &more);
    let mut client = server.client();
    let said = client.try_run_on("admin", "{getLog: 'startupWarnings'}").unwrap();
    let said = json::to_relaxed(said.as_doc());
    assert!(said.contains("Writes are always journaled"), "{said}");
    assert!(said.contains("All databases share the files"), "{said}");
    client.run("{insert: 'c', documents: [{a: 1}]}");
    let refused = client.run("{find: 'c', filter: {a: 1}}");
    assert_eq!(refused.get("code"), Value::Int32(291), "{refused:?}");
    assert!(client.count("system.profile") >= 1);
    assert_eq!(client.run("{profile: -1}").get("was"), Value::Int32(2));
    assert_eq!(client.run("{profile: 0}").get("was"), Value::Int32(2));
    assert_eq!(client.run("{profile: -1}").get("was"), Value::Int32(0));
}

/// A server in the background has the name of the link by which it was started.
#[test]
fn a_forked_server_has_the_name_it_was_called_by() {
    let folder = Folder::new("named");
    let link = folder.path().join("mongod");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nagi"), &link).unwrap();
    let log = folder.path().join("log");
    let started = std::process::Command::new(&link)
        .args(["--fork", "--port", "0", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"])
        .arg("--logpath")
        .arg(&log)
        .arg("--dbpath")
        .arg(folder.data())
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    let pid = std::fs::read_to_string(folder.data().join("mongod.lock")).unwrap();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap();
    let stopped = ended(&["--shutdown", "--dbpath", &folder.data().display().to_string()]);
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(name.trim(), "mongod");
    // The server has stopped when `--shutdown` returns: the next one can start immediately.
    let lock = folder.data().join("mongod.lock");
    std::fs::OpenOptions::new().write(true).open(&lock).unwrap().try_lock().unwrap();
    // The process id that a killed server left may belong to another process by now.
    std::fs::write(&lock, format!("{}\n", std::process::id())).unwrap();
    let nobody = ended(&["--shutdown", "--dbpath", &folder.data().display().to_string()]);
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("doesn't seem to be a server"));
}

/// logrotate knows nothing of a server that starts: SIGUSR1 must not end it. The server waits for its configuration,
/// a pipe, when the signal arrives.
#[test]
fn a_rotation_during_the_start_takes_place_after_it() {
    let folder = Folder::new("rotation-at-start");
    let path = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(path("config")).status().unwrap().success());
    let mut child = nagi().args(["serve", "--config"]).arg(path("config")).spawn().unwrap();
    // Returns when the server has opened the other end.
    let mut config = std::fs::OpenOptions::new().write(true).open(path("config")).unwrap();
    let signal = |name: &str| {
        // The shell's builtin, because a small system has no `kill` program.
        let kill = format!("kill {name} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    };
    signal("-USR1");
    let (data, log) = (folder.data(), path("log"));
    let text = format!(
        "storage: {{dbPath: {}, engine: inMemory}}\nsystemLog: {{destination: file, path: {}}}\n\
         net: {{port: 0, unixDomainSocket: {{enabled: false}}}}\n",
        data.display(),
        log.display()
    );
    config.write_all(text.as_bytes()).unwrap();
    drop(config);
    let texts = || {
        let entries = std::fs::read_dir(folder.path()).unwrap().flatten();
        let logs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("log"));
        logs.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect::<Vec<_>>()
    };
    let is_ready = || texts().iter().any(|text| text.contains("Waiting for connections"));
    let until = Instant::now() + Duration::from_secs(60);
    while (!is_ready() || texts().len() < 2) && Instant::now() < until {
        std::thread::yield_now();
    }
    signal("-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(texts().len(), 2);
}
