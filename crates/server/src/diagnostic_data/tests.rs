//! Files: a new one after an old process, trimmed, readable after errors.

use std::fs;
use std::path::Path;

use nagi_bson::{Doc, DocBuf, doc};
use nagi_ftdc::{Decoded, decode};
use nagi_testkit::scratch::Scratch;

use super::Recorder;

const FOLDER_MAX: u64 = 10 << 20;

fn folder() -> Scratch {
    let folder = Scratch::new();
    fs::create_dir_all(folder.path()).expect("a folder");
    folder
}

fn sample(n: i64) -> DocBuf {
    doc! { "start": n, "serverStatus": { "n": (n * n) } }
}

fn record(recorder: &Recorder, n: i64) {
    recorder.record(n * 1000, sample(n), FOLDER_MAX, &|out| out.put("fact", "x"));
}

/// The numbers of all samples in a file, and how many metadata records it has.
fn read(path: &Path) -> (Vec<u64>, usize) {
    let bytes = fs::read(path).expect("a file");
    let (mut rest, mut numbers, mut facts) = (bytes.as_slice(), Vec::new(), 0);
    while !rest.is_empty() {
        let (record, after) = Doc::parse_prefix(rest).expect("whole records");
        match decode(record).expect("a readable record") {
            Decoded::Metrics { columns, numbers: found, .. } => {
                assert_eq!(columns, 2);
                numbers.extend(found.chunks(2).map(|row| row[0]));
            }
            _ => facts += 1,
        }
        rest = after;
    }
    (numbers, facts)
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder.join("diagnostic.data")).expect("the folder");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_killed_process_loses_at_most_the_last_samples() {
    let folder = folder();
    let recorder = Recorder::default();
    recorder.set_data_folder(folder.path());
    (1..=325).for_each(|n| record(&recorder, n));
    assert_eq!(recorder.latest().as_bytes(), sample(325).as_bytes());
    drop(recorder);
    let next = Recorder::default();
    next.set_data_folder(folder.path());
    record(&next, 1000);
    next.finish();
    let files = files(folder.path());
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(read(&files[0]), ((1..=300).collect(), 1));
    assert_eq!(read(&files[1]), ((301..=320).chain([1000]).collect(), 1));
}

#[test]
fn another_set_of_fields_begins_a_chunk() {
    let folder = folder();
    let recorder = Recorder::default();
    recorder.set_data_folder(folder.path());
    record(&recorder, 1);
    recorder.record(2000, doc! { "a": 1, "b": 2 }, FOLDER_MAX, &|_| {});
    recorder.record(3000, doc! { "a": 3, "b": 4 }, FOLDER_MAX, &|_| {});
    recorder.finish();
    let files = files(folder.path());
    assert_eq!(read(&files[0]), (vec![1, 1, 3], 1));
}

#[test]
fn the_folder_has_a_limit() {
    let folder = folder();
    let data = folder.path().join("diagnostic.data");
    fs::create_dir_all(&data).expect("a folder");
    for day in 1..=9 {
        let name = format!("metrics.2020-01-0{day}T00-00-00Z-00000");
        fs::write(data.join(name), vec![0; 2 << 20]).expect("a file");
    }
    fs::write(data.join("other"), vec![0; 20 << 20]).expect("a file of another program");
    let recorder = Recorder::default();
    recorder.set_data_folder(folder.path());
    record(&recorder, 1);
    recorder.finish();
    let left: Vec<_> =
        files(folder.path()).iter().map(|p| p.file_name().map(|n| n.to_owned())).collect();
    // 9 MB less than a file of 1 MB: four old files, the new one, and what is not ours. The new one is of 1970.
    assert_eq!(left.len(), 4 + 1 + 1, "{left:?}");
}

#[test]
fn an_error_of_the_disk_is_survived() {
    let folder = folder();
    fs::write(folder.path().join("diagnostic.data"), "in the way").expect("a file");
    let recorder = Recorder::default();
    recorder.set_data_folder(folder.path());
    (1..=20).for_each(|n| record(&recorder, n));
    fs::remove_file(folder.path().join("diagnostic.data")).expect("removed");
    (21..=25).for_each(|n| record(&recorder, n));
    recorder.finish();
    assert_eq!(read(&files(folder.path())[0]).0, (21..=25).collect::<Vec<_>>());
    // A garbled interim file of another process is left out.
    fs::write(folder.path().join("diagnostic.data/metrics.interim"), "garbage").expect("a file");
    let next = Recorder::default();
    next.set_data_folder(folder.path());
    record(&next, 30);
    next.finish();
    assert_eq!(read(files(folder.path()).last().expect("a file")), (vec![30], 1));
}
