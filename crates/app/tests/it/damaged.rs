//! Damaged data, as clients see it, and `--repair`.

use std::path::{Path, PathBuf};

use nagi_bson::{Doc, DocBuf, Value, number};

use crate::process::{Client, Folder, Server, ended};

const COLLECTIONS: [&str; 3] = ["a", "b", "c"];
const DOCUMENTS: i64 = 3000;

fn field(doc: &DocBuf, path: &[&str]) -> i64 {
    let (last, outer) = path.split_last().unwrap();
    let mut at: Doc<'_> = doc.as_doc();
    for name in outer {
        let Value::Doc(inner) = at.get(name) else { panic!("{doc:?}") };
        at = inner;
    }
    number::as_i64_exact(at.get(last)).unwrap_or_else(|| panic!("{doc:?}"))
}

/// Fills three collections with two indexes each, in table files.
fn fill(folder: &Folder) {
    fill_as(folder, &[]);
}

/// The same on a server with these options.
fn fill_as(folder: &Folder, options: &[&str]) {
    let server = Server::start_with(&folder.data(), options);
    let mut client = server.client();
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    for name in COLLECTIONS {
        for first in (0..DOCUMENTS).step_by(500) {
            let mut list = Vec::new();
            for id in first..first + 500 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                list.push(format!(
                    "{{_id: {id}, k: {}, t: [{}, 1], pad: '{:0>200}'}}",
                    id % 7,
                    id % 5,
                    seed
                ));
            }
            let reply =
                client.run(&format!("{{insert: '{name}', documents: [{}]}}", list.join(",")));
            assert_eq!(field(&reply, &["n"]), 500);
        }
        let index = "{key: {k: 1}, name: 'k_1'}, {key: {t: 1}, name: 't_1'}";
        let reply = client.run(&format!("{{createIndexes: '{name}', indexes: [{index}]}}"));
        assert_eq!(reply.get("ok"), Value::Double(1.0), "{reply:?}");
        client.run(&format!("{{compact: '{name}', force: true}}"));
    }
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    assert!(folder.data().join("nagi.closed").exists());
}

fn tables(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("rocksdb")).unwrap();
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "sst"));
    all.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    all
}

/// Returns the collections that can be read completely, and the error replies of the others.
fn read_all(client: &mut Client) -> (Vec<&'static str>, Vec<DocBuf>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for name in COLLECTIONS {
        let scan = format!(
            "{{aggregate: '{name}', pipeline: [{{$group: {{_id: null, n: {{$sum: '$k'}}}}}}], cursor: {{}}}}"
        );
        let reply = client.run(&scan);
        match reply.get("ok") == Value::Double(1.0) {
            true => good.push(name),
            false => bad.push(reply),
        }
    }
    (good, bad)
}

fn repair(folder: &Folder) -> String {
    let data = folder.data().display().to_string();
    let output = ended(&["--repair", "--dbpath", &data, "--nounixsocket"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("Finished checking and repairing all databases"), "{text}");
    text
}

fn check_valid(client: &mut Client, name: &str) -> i64 {
    let reply = client.run(&format!("{{validate: '{name}', full: true}}"));
    assert_eq!(reply.get("valid"), Value::Bool(true), "{reply:?}");
    assert_eq!(field(&reply, &["nrecords"]), client.count(name));
    client.count(name)
}

#[test]
fn a_damaged_block_costs_its_documents_and_nothing_else() {
    let folder = Folder::new("block");
    fill(&folder);
    let largest = tables(&folder.data()).pop().unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&largest, bytes).unwrap();
    let server = Server::start(&folder.data());
    let mut client = server.client();
    let (good, bad) = read_all(&mut client);
    assert_eq!((good.len(), bad.len()), (2, 1), "{bad:?}");
    assert_eq!(bad[0].get("code"), Value::Int32(301), "{bad:?}");
    assert_eq!(bad[0].get("codeName"), Value::String("DataCorruptionDetected"));
    let file = largest.file_name().unwrap().to_string_lossy().into_owned();
    assert!(bad[0].get("errmsg").as_str().unwrap().contains(&file), "{bad:?}");
    // The server continues to work.
    let reply = client.run("{insert: 'fresh', documents: [{_id: 1}], writeConcern: {j: true}}");
    assert_eq!(field(&reply, &["n"]), 1);
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let text = repair(&folder);
    assert!(text.contains(&file), "{text}");
    let kept = std::fs::read_dir(folder.data()).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|p| p.to_string_lossy().contains("damaged-")).collect();
    assert!(kept[0].join("rocksdb").join(&file).exists());
    let report = std::fs::read_to_string(kept[0].join("report.txt")).unwrap();
    assert!(report.contains("records from ident"), "{report}");
    let server = Server::start(&folder.data());
    let mut client = server.client();
    let counts = COLLECTIONS.map(|name| check_valid(&mut client, name));
    let whole = counts.iter().filter(|count| **count == DOCUMENTS).count();
    assert_eq!(whole, 2, "{counts:?}");
    assert!(counts.iter().all(|count| *count > DOCUMENTS - 200), "{counts:?}");
    assert_eq!(check_valid(&mut client, "fresh"), 1);
    // An index on an array field is still marked as multikey.
    let reply = client.run("{count: 'a', query: {t: 1}, hint: 't_1'}");
    assert_eq!(field(&reply, &["n"]), client.count("a"));
}

/// Inserts that the log of a member has.
fn logged_inserts(folder: &Folder) -> usize {
    let server = Server::start_with(&folder.data(), &["--replSet", "rs0"]);
    let mut client = server.client();
    let find = "{find: 'oplog.rs', filter: {op: 'i'}, limit: 5}";
    let reply = client.try_run_on("local", find).unwrap();
    let Value::Doc(cursor) = reply.get("cursor") else { panic!("{reply:?}") };
    let count = cursor.get("firstBatch").as_array().unwrap().count();
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    count
}

#[test]
fn a_repair_that_has_changed_something_ends_the_log() {
    let folder = Folder::new("log");
    fill_as(&folder, &["--replSet", "rs0", "--initiate"]);
    repair(&folder);
    assert_eq!(logged_inserts(&folder), 5, "nothing was damaged");
    let largest = tables(&folder.data()).pop().unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&largest, bytes).unwrap();
    repair(&folder);
    assert_eq!(logged_inserts(&folder), 0);
}

#[test]
fn a_damaged_catalog_ends_the_start_and_orphans_get_a_name() {
    let folder = Folder::new("catalog");
    fill(&folder);
    let data = folder.data().display().to_string();
    // The catalog is in the smallest tables; records have tables of their own.
    for table in tables(&folder.data()) {
        let bytes = std::fs::read(&table).unwrap();
        if bytes.windows(8).any(|part| part == b"keyedAlo") {
            let mut bytes = bytes;
            bytes[30] ^= 0x04;
            std::fs::write(&table, bytes).unwrap();
        }
    }
    let output = ended(&["--dbpath", &data, "--port", "0", "--nounixsocket"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(14), "{text}");
    assert!(text.contains("Data corruption detected"), "{text}");
    repair(&folder);
    let server = Server::start(&folder.data());
    let mut client = server.client();
    let filter = "{listCollections: 1, nameOnly: true, filter: {name: /^orphan/}}";
    let reply = client.try_run_on("local", filter).unwrap();
    let text = format!("{reply:?}");
    let Value::Doc(cursor) = reply.get("cursor") else { panic!("{text}") };
    let mut counts = Vec::new();
    for row in cursor.get("firstBatch").as_array().unwrap().iter() {
        let Value::Doc(row) = row else { panic!("{text}") };
        let name = row.get("name").as_str().unwrap().to_owned();
        let reply = client.try_run_on("local", &format!("{{count: '{name}'}}")).unwrap();
        counts.push(field(&reply, &["n"]));
        let reply =
            client.try_run_on("local", &format!("{{validate: '{name}', full: true}}")).unwrap();
        assert_eq!(reply.get("valid"), Value::Bool(true), "{reply:?}");
    }
    counts.sort_unstable();
    // The first one is local.startup_log of the one start before the damage.
    assert_eq!(counts, [1, DOCUMENTS, DOCUMENTS, DOCUMENTS], "{text}");
    // New collections do not conflict with the salvaged ones.
    client.run("{insert: 'a', documents: [{_id: 1}]}");
    assert_eq!(client.count("a"), 1);
}

#[test]
fn a_lost_file_list_is_no_empty_database() {
    let folder = Folder::new("list");
    fill(&folder);
    let data = folder.data().display().to_string();
    std::fs::remove_file(folder.data().join("rocksdb/CURRENT")).unwrap();
    let output = ended(&["--dbpath", &data, "--port", "0", "--nounixsocket"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(14), "{text}");
    assert!(text.contains("CURRENT is missing") && text.contains("--repair"), "{text}");
    repair(&folder);
    let server = Server::start(&folder.data());
    let mut client = server.client();
    for name in COLLECTIONS {
        assert_eq!(check_valid(&mut client, name), DOCUMENTS);
    }
}

/// Overwrites records that contain `mark` with invalid documents, while no server runs.
fn garble(folder: &Folder, mark: &[u8]) {
    use nagi_kv::{Durability, Space, TxnOptions};
    let options = nagi_host::RocksOptions { cache_bytes: 64 << 20, ..Default::default() };
    let settings = nagi_host::EngineSettings::Embedded(options);
    let engine = nagi_host::open(&folder.data(), &settings).unwrap();
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let mut found = Vec::new();
    for space in Space::ALL.into_iter().filter(|space| space.is_records()) {
        let mut cursor = engine.latest().cursor(space, &[], &[]).unwrap();
        let mut there = cursor.seek(&[]).unwrap();
        while there {
            if cursor.value().windows(mark.len()).any(|part| part == mark) {
                found.push((space, cursor.key().to_vec()));
            }
            there = cursor.next().unwrap();
        }
    }
    assert!(!found.is_empty());
    for (space, key) in found {
        txn.put(space, &key, b"\0\xFF\0\0\0no document").unwrap();
    }
    txn.commit(Durability::Synced).unwrap();
    engine.close().unwrap();
}

#[test]
fn records_that_are_no_documents_are_moved_by_validate_and_by_repair() {
    let folder = Folder::new("records");
    let server = Server::start(&folder.data());
    let mut client = server.client();
    client.run("{createIndexes: 'a', indexes: [{key: {k: 1}, name: 'k_1'}]}");
    let documents: Vec<_> =
        (0..100).map(|id| format!("{{_id: {id}, k: {id}, mark: 'mark-{id}-'}}")).collect();
    client.run(&format!("{{insert: 'a', documents: [{}]}}", documents.join(",")));
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));

    garble(&folder, b"mark-7");
    let server = Server::start(&folder.data());
    let mut client = server.client();
    let reply = client.run("{validate: 'a'}");
    assert_eq!(reply.get("valid"), Value::Bool(false), "{reply:?}");
    assert_eq!(field(&reply, &["nInvalidDocuments"]), 11);
    assert!(reply.get("numRemovedCorruptRecords").is_missing());
    let reply = client.run("{validate: 'a', repair: true}");
    assert_eq!(reply.get("repaired"), Value::Bool(true), "{reply:?}");
    assert_eq!(reply.get("valid"), Value::Bool(true), "{reply:?}");
    assert_eq!(field(&reply, &["numRemovedCorruptRecords"]), 11);
    assert_eq!(check_valid(&mut client, "a"), 89);
    let reply = client.run("{count: 'a', query: {k: {$gte: 70, $lt: 80}}, hint: 'k_1'}");
    assert_eq!(field(&reply, &["n"]), 0);
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));

    garble(&folder, b"mark-3-");
    repair(&folder);
    let server = Server::start(&folder.data());
    let mut client = server.client();
    assert_eq!(check_valid(&mut client, "a"), 88);
    let reply = client.try_run_on("local", "{listCollections: 1, nameOnly: true}").unwrap();
    let Value::Doc(cursor) = reply.get("cursor") else { panic!("{reply:?}") };
    let names = cursor.get("firstBatch").as_array().unwrap();
    let names = names.iter().filter_map(|row| Some(row.as_doc()?.get("name").as_str()?.to_owned()));
    let kept: Vec<_> = names.filter(|name| name.starts_with("lost_and_found.")).collect();
    let [kept] = &kept[..] else { panic!("{reply:?}") };
    let query = "{ns: 'test.a', byteCount: 16, bytes: {$type: 'binData'}}";
    let count = format!("{{count: '{kept}', query: {query}}}");
    let reply = client.try_run_on("local", &count).unwrap();
    assert_eq!(field(&reply, &["n"]), 12);
}

/// The start itself reads some data, and the status says that it is damaged, not that an option is wrong.
#[test]
fn damage_that_a_start_meets_has_its_status() {
    let folder = Folder::new("first");
    let server = Server::start(&folder.data());
    let mut client = server.client();
    client.run("{insert: 'c', documents: [{_id: 1}]}");
    client.run("{create: 'v', viewOn: 'c', pipeline: []}");
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let mut refused_count = 0;
    for table in tables(&folder.data()) {
        let copy = folder.path().join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        let data = folder.data();
        let copied = std::process::Command::new("cp").arg("-r").args([&data, &copy]).status();
        assert!(copied.unwrap().success());
        let place = copy.join("rocksdb").join(table.file_name().unwrap());
        let mut bytes = std::fs::read(&place).unwrap();
        // In the first data block.
        bytes[8] ^= 4;
        std::fs::write(&place, bytes).unwrap();
        let (port, dir) = (["--port", "0", "--nounixsocket"], copy.display().to_string());
        let args = [&["serve", "--stopAtEndOfInput", "--dbpath", &dir][..], &port].concat();
        let output = ended(&args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(0) => {}
            code => {
                assert_eq!(code, Some(14), "{text}");
                assert!(text.contains("start once with --repair"), "{text}");
                refused_count += 1;
            }
        }
    }
    assert!(refused_count > 0);
}
