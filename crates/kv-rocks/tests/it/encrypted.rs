//! Encrypted data directories: nothing of the data is in the clear, no key stream is used twice, and files that do not
//! belong there are refused. That they work like others is tested where the others are: the contract, `crash`,
//! `damage`, `journal`.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_encryption::{FILE_NAME, HEADER_BYTES, Keys};
use nagi_kv::{Durability, Engine, Error, Space, TxnOptions};
use nagi_kv_rocks::{Options, open, repair};
use nagi_testkit::copy_folder;

use crate::{Scratch, encrypted, master, open_at, options_at, small};

/// In every key and value that these tests write.
const MARKER: &[u8] = b"kumquat-4711-marker";

fn key(n: u32) -> Vec<u8> {
    [&7_u32.to_be_bytes()[..], MARKER, &n.to_be_bytes()].concat()
}

fn commit(engine: &Arc<dyn Engine>, numbers: std::ops::Range<u32>, durability: Durability) {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    for n in numbers {
        txn.put(Space::Records, &key(n), &MARKER.repeat(1 + n as usize % 50)).expect("free");
        txn.put(Space::Index, &[&key(n)[..], b"i"].concat(), &[]).expect("free");
    }
    txn.put(Space::Catalog, MARKER, MARKER).expect("free");
    txn.commit(durability).expect("commits");
}

fn load(engine: &Arc<dyn Engine>, numbers: std::ops::Range<u32>) {
    let mut numbers = numbers;
    let mut next = |k: &mut Vec<u8>, v: &mut Vec<u8>| {
        let Some(n) = numbers.next() else { return Ok(false) };
        *k = key(n);
        *v = MARKER.repeat(20);
        Ok(true)
    };
    engine.load(Space::Records, &mut next).expect("loads");
}

/// Tables of several levels, a bulk load, a large value, dropped ranges, compactions of ranges, and a log.
fn fill(engine: &Arc<dyn Engine>) {
    for part in 0..20 {
        commit(engine, part * 100..part * 100 + 100, Durability::Buffered);
    }
    load(engine, 10_000..40_000);
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Records, &key(50_000), &MARKER.repeat((14 << 20) / MARKER.len())).expect("free");
    txn.commit(Durability::Synced).expect("commits");
    engine.compact(Space::Records, &key(0), &key(20_000)).expect("compacts");
    engine.drop_range(Space::Records, &key(12_000), &key(38_000)).expect("drops");
    commit(engine, 60_000..60_100, Durability::Synced);
}

/// All files below a folder, and the rings that belong to it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("lists") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    let rings = found.iter().filter(|path| path.ends_with("rocksdb/SPOOL")).filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        Some(PathBuf::from(text.lines().find_map(|line| line.strip_prefix("ring: "))?))
    });
    let rings: Vec<PathBuf> = rings.filter(|ring| ring.exists()).collect();
    found.extend(rings);
    found
}

/// The files that contain the marker, as it is or in hexadecimal digits.
fn marked(dir: &Path) -> Vec<String> {
    let hex = |upper: bool| -> Vec<u8> {
        let digits = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        MARKER.iter().map(digits).collect::<String>().into_bytes()
    };
    let needles = [MARKER.to_vec(), hex(true), hex(false)];
    let has = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        needles.iter().any(|needle| memchr(&bytes, needle))
    };
    let names = files(dir).into_iter().filter(has);
    names.map(|path| path.display().to_string()).collect()
}

/// Whether a text is in some bytes; the first byte is looked for first, because the bytes are many.
fn memchr(bytes: &[u8], needle: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == needle[0]) {
        if rest[at..].starts_with(needle) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[test]
fn no_file_nor_the_ring_contains_what_was_written() {
    for is_encrypted in [false, true] {
        let scratch = if is_encrypted { encrypted() } else { Scratch::new() };
        let engine = open_at(scratch.path());
        fill(&engine);
        // As a killed process would leave it; and the ring of this one.
        let open = marked(scratch.path());
        engine.close().expect("closes");
        drop(engine);
        let closed = marked(scratch.path());
        if is_encrypted {
            assert_eq!((open, closed), (Vec::new(), Vec::new()));
            continue;
        }
        // The test can tell: each of these would have been found.
        for kind in [".sst", ".log", "MANIFEST", "LOG", "/nagi-"] {
            assert!(open.iter().any(|name| name.contains(kind)), "{kind}: {open:?}");
        }
        assert!(closed.iter().any(|name| name.contains(".sst")), "{closed:?}");
    }
}

#[test]
fn everything_is_read_again_from_encrypted_files() {
    let scratch = encrypted();
    let engine = open_at(scratch.path());
    fill(&engine);
    drop(engine);
    let engine = open_at(scratch.path());
    let mut buf = Vec::new();
    let mut length = |n: u32| {
        let found = engine.latest().get(Space::Records, &key(n), &mut buf).expect("reads");
        found.inspect(|value| assert!(value.starts_with(MARKER))).map(<[u8]>::len)
    };
    assert_eq!(length(1234), Some(MARKER.len() * 35));
    assert_eq!(length(11_000), Some(MARKER.len() * 20));
    assert_eq!(length(20_000), None);
    assert_eq!(length(39_999), Some(MARKER.len() * 20));
    assert_eq!(length(50_000), Some((14 << 20) / MARKER.len() * MARKER.len()));
    assert_eq!(length(60_099), Some(MARKER.len() * 50));
    assert_eq!(engine.verify(&mut |_, _| true).expect("reads"), Some(Vec::new()));
}

/// The first bytes of the files of each key, as far as they were seen.
#[derive(Default)]
struct Seen(HashMap<Vec<u8>, Vec<u8>>);

impl Seen {
    /// Compares what is there with what was there before: one content at each position of a key.
    fn look(&mut self, dir: &Path) {
        for path in files(dir) {
            let bytes = fs::read(&path).unwrap_or_default();
            if !bytes.starts_with(b"NagiFile") || bytes.len() < HEADER_BYTES {
                continue;
            }
            let (header, content) = bytes.split_at(HEADER_BYTES);
            let before = self.0.entry(header.to_vec()).or_default();
            // A page that was written before it was full has zeros behind its content.
            let end = before.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            let both = end.min(content.len()).saturating_sub(8);
            assert!(before[..both] == content[..both], "{} was written over", path.display());
            if content.len() > before.len() {
                *before = content.to_vec();
            }
        }
    }
}

#[test]
fn no_position_of_a_key_stream_has_two_contents() {
    let scratch = encrypted();
    let mut seen = Seen::default();
    for round in 0..4_u32 {
        let engine = open_at(scratch.path());
        for part in 0..12 {
            let from = round * 10_000 + part * 300;
            commit(&engine, from..from + 300, Durability::Synced);
            seen.look(scratch.path());
        }
        engine.compact(Space::Records, &[], &[]).expect("compacts");
        seen.look(scratch.path());
        match round % 2 {
            0 => engine.close().expect("closes"),
            _ => engine.flush().expect("flushes"),
        }
        drop(engine);
        seen.look(scratch.path());
    }
    // A repair copies files and continues from the copies.
    let table =
        files(scratch.path()).into_iter().find(|p| p.extension().is_some_and(|e| e == "sst"));
    let table = table.expect("a table");
    let length = fs::metadata(&table).expect("there").len() as usize;
    nagi_testkit::flip(&table, length - 20).expect("flips");
    let report = repair(scratch.path(), &options_at(scratch.path())).expect("repairs");
    assert!(!report.findings.is_empty());
    let kept = report.kept.expect("damaged files are kept");
    assert!(kept.join(FILE_NAME).exists(), "the copy has its keys");
    fs::remove_file(kept.join("rocksdb").join(table.file_name().expect("a name"))).expect("there");
    seen.look(scratch.path());
    commit(&open_at(scratch.path()), 0..10, Durability::Synced);
    seen.look(scratch.path());
    assert!(seen.0.len() > 20, "{} files", seen.0.len());
}

fn refusal(dir: &Path, options: &Options) -> String {
    match open(dir, options) {
        Ok(engine) => {
            let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
            let error = cursor.seek(&[]).err().or_else(|| {
                loop {
                    match cursor.next() {
                        Ok(true) => {}
                        Ok(false) => break None,
                        Err(error) => break Some(error),
                    }
                }
            });
            error.expect("it should have been refused").to_string()
        }
        Err(Error::Corrupt(text)) => text,
        Err(other) => panic!("not damage: {other}"),
    }
}

#[test]
fn files_without_a_header_of_this_folder_are_refused_by_name() {
    let (original, other) = (encrypted(), encrypted());
    for scratch in [&original, &other] {
        let engine = open_at(scratch.path());
        load(&engine, 0..20_000);
        engine.compact(Space::Records, &[], &[]).expect("compacts");
        engine.close().expect("closes");
    }
    let foreign =
        files(other.path()).into_iter().find(|p| p.extension().is_some_and(|e| e == "sst"));
    let foreign = fs::read(foreign.expect("a table")).expect("reads");
    let kinds: [(&str, &str); 3] =
        [(".sst", ".sst"), ("MANIFEST", "MANIFEST"), ("CURRENT", "CURRENT")];
    for (kind, named) in kinds {
        for (what, expected) in [
            ("plain", "the header of an encrypted file is damaged (it is not one)"),
            ("short", "the header of an encrypted file is damaged"),
            ("foreign", "belongs to the keys of another data directory"),
        ] {
            let scratch = Scratch::new();
            copy_folder(original.path(), scratch.path()).expect("copies");
            // As after a crash: without the record of what the files were.
            fs::remove_file(scratch.path().join("nagi.closed")).expect("there");
            let found = files(scratch.path()).into_iter().find(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().contains(kind))
            });
            let path = found.expect("there is one");
            let bytes = fs::read(&path).expect("reads");
            let bytes = match what {
                "plain" => vec![b'x'; bytes.len()],
                "short" => bytes[..1000].to_vec(),
                _ => [&foreign[..HEADER_BYTES], &bytes[HEADER_BYTES..]].concat(),
            };
            fs::write(&path, bytes).expect("writes");
            let text = refusal(scratch.path(), &options_at(scratch.path()));
            assert!(text.contains(named), "{kind} {what}: {text}");
            assert!(text.contains(expected), "{kind} {what}: {text}");
        }
    }
}

#[test]
fn a_damaged_name_of_the_database_is_made_anew() {
    let scratch = encrypted();
    commit(&open_at(scratch.path()), 0..100, Durability::Synced);
    let path = scratch.path().join("rocksdb/IDENTITY");
    let whole = fs::read(&path).expect("there");
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let header = flipped(60);
    for bytes in [&header[..], &flipped(HEADER_BYTES + 3), &whole[..1000], b""] {
        fs::write(&path, bytes).expect("writes");
        let engine = open_at(scratch.path());
        let mut buf = Vec::new();
        let found = engine.latest().get(Space::Records, &key(99), &mut buf).expect("reads");
        assert!(found.is_some_and(|value| value.starts_with(MARKER)));
        drop(engine);
        let renewed = fs::read(&path).expect("there");
        let keys = Keys::open(scratch.path(), &master(7), false).expect("its keys");
        assert!(keys.open_file(&renewed).is_ok(), "it has a header");
        assert!(renewed[..HEADER_BYTES] != whole[..HEADER_BYTES], "with a key of its own");
    }
    // One of another folder was put there by somebody.
    let other = encrypted();
    drop(open_at(other.path()));
    fs::copy(other.path().join("rocksdb/IDENTITY"), &path).expect("copies");
    let text = refusal(scratch.path(), &options_at(scratch.path()));
    assert!(text.contains("IDENTITY") && text.contains("another data directory"), "{text}");
}

#[test]
fn without_its_own_keys_a_folder_cannot_be_opened() {
    let scratch = encrypted();
    let engine = open_at(scratch.path());
    fill(&engine);
    drop(engine);
    let other = encrypted();
    let text = refusal(scratch.path(), &options_at(other.path()));
    assert!(text.contains("another data directory"), "{text}");
    assert!(open(scratch.path(), &small()).is_err());
    // Nothing of that has changed it.
    assert!(open_at(scratch.path()).verify(&mut |_, _| true).expect("reads").is_some());
}

#[test]
fn a_checkpoint_has_the_keys_and_survives_the_original() {
    let scratch = encrypted();
    let keys = Keys::open(scratch.path(), &master(7), false).expect("its keys");
    let keys = Arc::new(keys);
    let options = Options { keys: Some(Arc::clone(&keys)), ..small() };
    let engine = open(scratch.path(), &options).expect("opens");
    commit(&engine, 0..500, Durability::Synced);
    engine.compact(Space::Records, &[], &[]).expect("compacts");
    keys.rotate().expect("adds a generation");
    commit(&engine, 500..900, Durability::Synced);
    let copy = Scratch::new();
    let folder = copy.path().join("copy");
    fs::create_dir_all(copy.path()).expect("creates");
    engine.checkpoint(&folder).expect("copies");
    drop(engine);
    drop(scratch);
    assert_eq!(marked(&folder), Vec::<String>::new());
    let engine = open_at(&folder);
    let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
    let (mut found, mut count) = (cursor.seek(&[]).expect("seeks"), 0);
    while found {
        count += 1;
        found = cursor.next().expect("moves");
    }
    assert_eq!(count, 900);
}

#[test]
fn the_ring_of_a_killed_process_is_replayed_as_it_is() {
    let scratch = encrypted();
    let acknowledged = nagi_kv::conformance::crash::run_and_kill(scratch.path(), 80);
    let rings = files(scratch.path()).into_iter().filter(|path| !path.starts_with(scratch.path()));
    for ring in rings {
        // The values are 300 bytes with the number of the writer.
        let bytes = fs::read(ring).expect("reads");
        assert!(!(1..=3_u8).any(|writer| memchr(&bytes, &[writer; 64])));
    }
    let engine = open_at(scratch.path());
    let mut count = 0;
    let mut cursor = engine.latest().cursor(Space::Records, &[0], &[0x80]).expect("a cursor");
    let mut found = cursor.seek(&[]).expect("seeks");
    while found {
        count += 1;
        found = cursor.next().expect("moves");
    }
    assert!(count >= acknowledged.iter().sum::<u32>(), "{count} of {acknowledged:?}");
}
