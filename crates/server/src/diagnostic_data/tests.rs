//! Files: a new one after an old process, trimmed, encrypted, readable after errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, doc};
use nagi_encryption::{HEADER_BYTES, Keys, MasterKey, is_encrypted};
use nagi_ftdc::{Decoded, decode};
use nagi_testkit::Scratch;

use super::{Limits, PAUSE_MS, Place, Recorder, Sample};

const LIMITS: Limits = Limits {
    folder_bytes: 10 << 20,
    file_bytes: 10 << 20,
    chunk_samples: 300,
    interim_samples: 10,
};

/// A folder for data, and keys if its files are encrypted.
struct Data {
    folder: Scratch,
    keys: Option<Arc<Keys>>,
}

impl Data {
    fn new(encrypted: bool) -> Data {
        let folder = Scratch::new();
        fs::create_dir_all(folder.path()).expect("a folder");
        let master = MasterKey::from_bytes(&[7; 32], "").expect("the length is allowed");
        let keys = encrypted
            .then(|| Arc::new(Keys::open(folder.path(), &master, true).expect("new keys")));
        Data { folder, keys }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("diagnostic.data")
    }

    /// A recorder as a process has one.
    fn recorder(&self) -> Recorder {
        let recorder = Recorder::default();
        assert!(recorder.set_place(Place { folder: self.path(), keys: self.keys.clone() }));
        recorder
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).expect("the folder");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }

    /// The numbers of all samples in a file, and how many metadata records it has.
    #[track_caller]
    fn read(&self, path: &Path) -> (Vec<u64>, usize) {
        let mut bytes = fs::read(path).expect("a file");
        assert_eq!(is_encrypted(&bytes), self.keys.is_some());
        if let Some(keys) = &self.keys {
            let mut content = bytes.split_off(HEADER_BYTES);
            keys.open_file(&bytes).expect("a header").apply(0, &mut content);
            bytes = content;
        }
        let (mut rest, mut numbers, mut facts) = (bytes.as_slice(), Vec::new(), 0);
        while !rest.is_empty() {
            let (record, after) = Doc::parse_prefix(rest).expect("whole records");
            match decode(record).expect("a readable record") {
                Decoded::Metrics { columns, numbers: found, .. } => {
                    numbers.extend(found.chunks(columns).map(|row| row[0]));
                }
                _ => facts += 1,
            }
            rest = after;
        }
        (numbers, facts)
    }
}

fn sample(n: i64) -> DocBuf {
    doc! { "start": n, "serverStatus": { "n": (n * n) } }
}

/// Records a sample of the second `n`.
fn record_doc(recorder: &Recorder, n: i64, doc: DocBuf, limits: Limits) {
    recorder.record(&Sample { now_ms: n * 1000, doc, limits, facts: &|out| out.put("fact", "x") });
}

fn record(recorder: &Recorder, n: i64) {
    record_doc(recorder, n, sample(n), LIMITS);
}

fn a_kill_loses_at_most_the_last_samples(encrypted: bool) {
    let data = Data::new(encrypted);
    let recorder = data.recorder();
    (1..=325).for_each(|n| record(&recorder, n));
    assert_eq!(recorder.latest().as_bytes(), sample(325).as_bytes());
    drop(recorder);
    let next = data.recorder();
    record(&next, 1000);
    next.close(1_000_500);
    let files = data.files();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(data.read(&files[0]), ((1..=300).collect(), 1));
    assert_eq!(data.read(&files[1]), ((301..=320).chain([1000]).collect(), 1));
}

#[test]
fn a_killed_process_loses_at_most_the_last_samples() {
    a_kill_loses_at_most_the_last_samples(false);
    a_kill_loses_at_most_the_last_samples(true);
}

#[test]
fn encrypted_files_have_nothing_in_the_clear() {
    for encrypted in [false, true] {
        let data = Data::new(encrypted);
        let recorder = data.recorder();
        (1..=15).for_each(|n| record(&recorder, n));
        let files = data.files();
        assert_eq!(files.len(), 2, "the file and the interim file: {files:?}");
        for path in files {
            let bytes = fs::read(&path).expect("a file");
            let begins_plain = bytes[4..].starts_with(b"\x09_id\0");
            let has_facts = bytes.windows(4).any(|window| window == b"fact");
            assert_eq!(begins_plain, !encrypted, "{path:?}");
            assert!(!encrypted || !has_facts, "{path:?}");
        }
        recorder.close(20_000);
    }
}

#[test]
fn a_chunk_of_another_directory_is_left_out() {
    let (one, other) = (Data::new(true), Data::new(true));
    let recorder = one.recorder();
    (1..=10).for_each(|n| record(&recorder, n));
    fs::create_dir_all(other.path()).expect("a folder");
    let interim = "metrics.interim";
    fs::copy(one.path().join(interim), other.path().join(interim)).expect("a copy");
    let next = other.recorder();
    record(&next, 50);
    next.close(51_000);
    let files = other.files();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(other.read(&files[0]), (vec![50], 1));
}

#[test]
fn another_set_of_fields_begins_a_chunk() {
    let data = Data::new(false);
    let recorder = data.recorder();
    record(&recorder, 1);
    record_doc(&recorder, 2, doc! { "a": 1, "b": 2 }, LIMITS);
    record_doc(&recorder, 3, doc! { "a": 3, "b": 4 }, LIMITS);
    recorder.close(4000);
    assert_eq!(data.read(&data.files()[0]), (vec![1, 1, 3], 1));
}

#[test]
fn the_folder_has_a_limit() {
    let data = Data::new(false);
    fs::create_dir_all(data.path()).expect("a folder");
    for day in 1..=9 {
        let name = format!("metrics.1969-01-0{day}T00-00-00Z-00000");
        fs::write(data.path().join(name), vec![0; 2 << 20]).expect("a file");
    }
    fs::write(data.path().join("other"), vec![0; 20 << 20]).expect("a file of another program");
    let recorder = data.recorder();
    record(&recorder, 1);
    // 10 MB less than a file of 1 MB and 1 MB for the interim file: three old files, the new one, and what is not ours.
    let left = data.files();
    assert_eq!(left.len(), 3 + 1 + 1, "{left:?}");
    assert!(
        left[0].ends_with("metrics.1969-01-07T00-00-00Z-00000"),
        "the oldest are removed: {left:?}"
    );
    // A smaller size is seen at the next sample.
    record_doc(&recorder, 2, sample(2), Limits { folder_bytes: 6 << 20, ..LIMITS });
    assert_eq!(data.files().len(), 2 + 1 + 1);
    recorder.close(3000);
}

/// Samples whose fields always differ are not compressed: the worst that can happen to the size.
#[test]
fn the_folder_never_exceeds_its_size() {
    for encrypted in [false, true] {
        let data = Data::new(encrypted);
        let recorder = data.recorder();
        let mut largest = 0;
        for n in 1..=700_i64 {
            let doc = DocBuf::build(|out| {
                for i in 0..2000_u64 {
                    // Noise, so that it is not compressed.
                    let noise = (i ^ ((n as u64) << 32)).wrapping_mul(0x9FB2_1C65_1E98_DF25);
                    out.put(&format!("n{n}_{i}"), (noise ^ (noise >> 29)) as i64);
                }
            });
            record_doc(&recorder, n, doc, LIMITS);
            let files = data.files();
            let total: u64 =
                files.iter().map(|path| fs::metadata(path).map_or(0, |m| m.len())).sum();
            largest = largest.max(total);
        }
        recorder.close(700_000);
        assert!(largest <= LIMITS.folder_bytes, "{largest}");
        assert!(largest > 5 << 20, "the samples do not fill the folder: {largest}");
        // What is left is the newest.
        let last = data.read(data.files().last().expect("a file"));
        assert!(last.1 == 1 && !last.0.is_empty());
    }
}

#[test]
fn an_error_of_the_disk_is_survived() {
    let data = Data::new(false);
    fs::write(data.path(), "in the way").expect("a file");
    let recorder = data.recorder();
    (1..=20).for_each(|n| record(&recorder, n));
    fs::remove_file(data.path()).expect("removed");
    // Twenty samples have taken 20 s: the attempts were at 1 and 11.
    assert_eq!(PAUSE_MS, 10_000);
    (21..=25).for_each(|n| record(&recorder, n));
    recorder.finish(26_000);
    assert_eq!(data.read(&data.files()[0]).0, (21..=25).collect::<Vec<_>>());
    // A garbled interim file of another process is left out.
    fs::write(data.path().join("metrics.interim"), "garbage").expect("a file");
    let next = data.recorder();
    record(&next, 30);
    next.close(31_000);
    assert_eq!(data.read(data.files().last().expect("a file")), (vec![30], 1));
}

#[test]
fn a_chunk_stays_in_memory_while_the_files_fail() {
    for encrypted in [false, true] {
        let data = Data::new(encrypted);
        let recorder = data.recorder();
        (1..=12).for_each(|n| record(&recorder, n));
        let hidden = data.folder.path().join("hidden");
        fs::rename(data.path(), &hidden).expect("renamed");
        fs::write(data.path(), "in the way").expect("a file");
        // The interim file of sample 20 fails; the samples of the pause after it are lost.
        (13..=29).for_each(|n| record(&recorder, n));
        assert!(recorder.latest().as_bytes() == sample(29).as_bytes(), "requests see them");
        fs::remove_file(data.path()).expect("removed");
        fs::rename(&hidden, data.path()).expect("renamed");
        (30..=33).for_each(|n| record(&recorder, n));
        recorder.close(34_000);
        let files = data.files();
        assert_eq!(files.len(), 2, "{files:?}");
        assert_eq!(data.read(&files[0]), (vec![], 1));
        assert_eq!(data.read(&files[1]), ((1..=20).chain(30..=33).collect(), 1));
    }
}

#[test]
fn recording_is_switched_off_and_on() {
    let data = Data::new(false);
    let recorder = data.recorder();
    (1..=3).for_each(|n| record(&recorder, n));
    recorder.finish(4000);
    recorder.finish(5000);
    record(&recorder, 6);
    recorder.close(7000);
    recorder.unless_closed(|| panic!("it is closed"));
    let files = data.files();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(data.read(&files[0]).0, [1, 2, 3]);
    assert_eq!(data.read(&files[1]).0, [6]);
    assert!(!recorder.set_place(Place { folder: "/other".into(), keys: None }));
}
