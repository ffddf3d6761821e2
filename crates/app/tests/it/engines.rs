//! The choice of the storage engine.

use nagi_bson::Value;

use crate::process::{Folder, Server, ended};

const OTHERS: [(&str, &str, &str); 2] =
    [("mmapv1", "wiredTiger", "rocks"), ("wiredTiger", "mmapv1", "lmdb")];

#[test]
fn a_folder_remembers_its_engine_and_refuses_others() {
    for (engine, other, alias) in OTHERS {
        let folder = Folder::new(engine);
        let data = folder.data().display().to_string();
        for (round, chosen) in [&["--storageEngine", engine][..], &[], &[]].into_iter().enumerate()
        {
            let server = Server::start_with(&folder.data(), chosen);
            let mut client = server.client();
            let reply = client.run("{serverStatus: 1}");
            let Value::Doc(section) = reply.get("storageEngine") else { panic!("{reply:?}") };
            assert_eq!(section.get("name"), Value::String(engine));
            assert_eq!(section.get("persistent"), Value::Bool(true));
            assert_eq!(reply.get("wiredTiger").is_missing(), engine == "mmapv1");
            assert_eq!(client.count("c"), round as i64);
            let insert = format!("{{insert: 'c', documents: [{{_id: {round}}}]}}");
            assert_eq!(client.run(&insert).get("n"), Value::Int32(1));
            drop(client);
            // One of the servers is killed.
            server.signal(if round == 1 { "-KILL" } else { "-TERM" });
            assert_eq!(server.wait(), (round != 1).then_some(0));
        }
        for name in [other, alias, "inMemory"] {
            let refused = ended(&[
                "--dbpath",
                &data,
                "--port",
                "0",
                "--nounixsocket",
                "--storageEngine",
                name,
            ]);
            assert_eq!(refused.status.code(), Some(100));
            let text = String::from_utf8_lossy(&refused.stdout).into_owned();
            let told = format!("created by the '{engine}' storage engine");
            assert!(text.contains("Location28662") && text.contains(&told), "{text}");
        }
    }
}

#[test]
fn a_folder_that_a_killed_server_left_is_backed_up_whatever_its_engine() {
    for (engine, ..) in OTHERS {
        let folder = Folder::new(&format!("{engine}-backup"));
        let server = Server::start_with(&folder.data(), &["--storageEngine", engine]);
        let mut client = server.client();
        for n in 0..50 {
            client.run(&format!("{{insert: 'c', documents: [{{_id: {n}, x: {}}}]}}", n * 7 % 50));
        }
        client.run("{createIndexes: 'c', indexes: [{key: {x: 1}, name: 'x_1'}]}");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let in_use = ended(&["backup", "--dbpath", &path("data"), "--out", &path("none")]);
        assert_eq!(in_use.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&in_use.stderr).contains("--uri"), "{in_use:?}");
        drop(client);
        server.signal("-KILL");
        server.wait();
        let backup = ended(&["backup", "--dbpath", &path("data"), "--out", &path("backup")]);
        assert!(backup.status.success(), "{backup:?}");
        assert!(!folder.data().join("nagi.backup").exists());
        let restore = ended(&["restore", "--from", &path("backup"), "--dbpath", &path("restored")]);
        assert!(restore.status.success(), "{restore:?}");
        for name in ["restored", "data"] {
            let server = Server::start(&folder.path().join(name));
            let mut client = server.client();
            let reply = client.run("{serverStatus: 1}");
            let Value::Doc(section) = reply.get("storageEngine") else { panic!("{reply:?}") };
            assert_eq!(section.get("name"), Value::String(engine));
            assert_eq!(client.count("c"), 50);
            let report = client.run("{validate: 'c', full: true}");
            assert_eq!(report.get("valid"), Value::Bool(true), "{report:?}");
        }
    }
}

#[test]
fn every_engine_says_what_is_wrong_at_the_start() {
    for engine in ["mmapv1", "wiredTiger"] {
        let missing = ended(&["--dbpath", "/does/not/exist", "--storageEngine", engine]);
        assert_eq!(missing.status.code(), Some(100));
        assert!(String::from_utf8_lossy(&missing.stdout).contains("NonExistentPath"));
        let folder = Folder::new(&format!("{engine}-twice"));
        let data = folder.data().display().to_string();
        let _first = Server::start_with(&folder.data(), &["--storageEngine", engine]);
        let second =
            ended(&["--dbpath", &data, "--port", "0", "--nounixsocket", "--storageEngine", engine]);
        assert_eq!(second.status.code(), Some(100));
        assert!(String::from_utf8_lossy(&second.stdout).contains("DBPathInUse"));
    }
}

#[test]
fn a_full_memory_refuses_inserts_until_something_is_deleted() {
    let folder = Folder::new("full-memory");
    let options = ["--storageEngine", "inMemory", "--inMemorySizeGB", "0.01"];
    let server = Server::start_with(&folder.data(), &options);
    let mut client = server.client();
    let insert = format!("{{insert: 'c', documents: [{{s: '{}'}}]}}", "x".repeat(100_000));
    let refused = (0..200).find_map(|_| {
        let reply = client.try_run(&insert)?;
        let refused = reply.get("n") != Value::Int32(1);
        refused.then_some(reply)
    });
    let refused = format!("{:?}", refused.expect("ten megabytes are not twenty"));
    assert!(refused.contains("146") && refused.contains("WT_CACHE_FULL"), "{refused}");
    let before = client.count("c");
    assert!((60..110).contains(&before), "{before}");
    let delete = "{delete: 'c', deletes: [{q: {}, limit: 0}]}";
    assert_eq!(client.run(delete).get("n"), Value::Int32(before as i32));
    assert_eq!(client.run(&insert).get("n"), Value::Int32(1));
    assert_eq!(client.count("c"), 1);
}

/// Data of a newer version is refused with one status, whichever format is newer, and is not damaged for --repair.
#[test]
fn data_of_a_newer_version_has_one_status() {
    use nagi_kv::{Durability, Space, TxnOptions};
    let check = |folder: &Folder, text: &str| {
        let data = folder.data().display().to_string();
        for more in [&[][..], &["--repair"]] {
            let args = [&["--dbpath", &*data, "--port", "0", "--nounixsocket"], more].concat();
            let output = ended(&args);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(100), "{more:?}: {said}");
            assert!(said.contains(text), "{more:?}: {said}");
        }
    };
    let folder = Folder::new("newer-engine");
    drop(Server::start(&folder.data()));
    let marker = folder.data().join("nagi.storage");
    let text = std::fs::read_to_string(&marker).unwrap();
    std::fs::write(&marker, text.replace("format: 2", "format: 99")).unwrap();
    check(&folder, "has storage format 99, this version reads up to 2");
    let folder = Folder::new("newer-catalog");
    drop(Server::start(&folder.data()));
    let options = nagi_host::RocksOptions { cache_bytes: 64 << 20, ..Default::default() };
    let settings = nagi_host::EngineSettings::Embedded(options);
    let engine = nagi_host::open(&folder.data(), &settings).unwrap();
    let mut formats = Vec::new();
    let mut cursor = engine.latest().cursor(Space::Catalog, &[], &[]).unwrap();
    let mut there = cursor.seek(&[]).unwrap();
    while there {
        if cursor.value() == 4_u32.to_le_bytes() {
            formats.push(cursor.key().to_vec());
        }
        there = cursor.next().unwrap();
    }
    drop(cursor);
    assert_eq!(formats.len(), 1);
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    txn.put(Space::Catalog, &formats[0], &99_u32.to_le_bytes()).unwrap();
    txn.commit(Durability::Synced).unwrap();
    engine.close().unwrap();
    drop(engine);
    check(&folder, "The data files have format 99, this server reads format 4");
}
