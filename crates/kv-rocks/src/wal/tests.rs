//! Logs built by hand: damage, torn ends, and remains of older logs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Mark, damaged, keep,
    record::{self, BLOCK, NUMBERED_HEADER},
    rewrite,
    scan::{Extent, scan},
};

/// A folder that is removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("nagi-wal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn log(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:06}.log"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A log as RocksDB writes it: numbered records, batches in as many records as the blocks require.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    /// The end of each batch.
    ends: Vec<u64>,
}

impl Written {
    fn new(number: u64, batches: &[Vec<u8>]) -> Written {
        let mut log = Written::default();
        for batch in batches {
            log.push(number, batch);
        }
        log
    }

    fn push(&mut self, number: u64, mut batch: &[u8]) {
        let mut begin = true;
        loop {
            let left = BLOCK - self.bytes.len() % BLOCK;
            if left < NUMBERED_HEADER {
                self.bytes.resize(self.bytes.len() + left, 0);
                continue;
            }
            let (part, rest) = batch.split_at(batch.len().min(left - NUMBERED_HEADER));
            let kind = 5 + u8::from(begin != rest.is_empty()) + 2 * u8::from(!begin);
            let mut body = (number as u32).to_le_bytes().to_vec();
            body.extend_from_slice(part);
            let at = self.bytes.len();
            // The checksum is the same as over a payload that begins with the number.
            record::append(&mut self.bytes, kind, &body);
            self.bytes[at + 4..at + 6].copy_from_slice(&(part.len() as u16).to_le_bytes());
            if rest.is_empty() {
                break;
            }
            (begin, batch) = (false, rest);
        }
        self.ends.push(self.bytes.len() as u64);
    }
}

/// Distinct batches with sizes from a few bytes to more than a block.
fn batches(count: usize) -> Vec<Vec<u8>> {
    let size = |n: usize| if n % 17 == 16 { 40_000 + n } else { 30 + n * 37 % 900 };
    (0..count).map(|n| (0..size(n)).map(|at| (n * 31 + at * 7) as u8 | 0x80).collect()).collect()
}

fn marked(mark: &Mark) -> Vec<u8> {
    let mut batch = vec![0; 12];
    batch.extend_from_slice(&[3, 36]);
    batch.extend_from_slice(&mark.bytes());
    batch
}

fn content(path: &Path, number: u64) -> Vec<Vec<u8>> {
    let (mut found, mut parts) = (Vec::new(), Vec::new());
    scan(path, number, None, &mut |record, gap| {
        assert!(!gap, "a hole");
        if matches!(record.part(), record::Part::Full | record::Part::First) {
            parts.clear();
        }
        parts.extend_from_slice(record.payload);
        if matches!(record.part(), record::Part::Full | record::Part::Last) {
            found.push(parts.clone());
        }
    })
    .unwrap();
    found
}

fn found(dir: &Path) -> Vec<String> {
    let mut needed = || Some(0);
    damaged(dir, None, &mut needed).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn a_log_reads_as_it_was_written_also_over_the_file_of_an_older_one() {
    let dir = Scratch::new("reuse");
    let old = Written::new(5, &batches(120));
    let new = Written::new(9, &batches(40));
    let mut bytes = old.bytes;
    bytes[..new.bytes.len()].copy_from_slice(&new.bytes);
    fs::write(dir.log(9), bytes).unwrap();
    let extent = scan(&dir.log(9), 9, None, &mut |_, _| {}).unwrap();
    assert_eq!(extent, Extent { whole: new.bytes.len() as u64, behind: 0 });
    assert_eq!(content(&dir.log(9), 9), batches(40));
}

#[test]
fn what_was_synced_has_to_be_there_and_nothing_else() {
    let dir = Scratch::new("rule");
    let path = dir.log(9);
    let mut log = Written::new(9, &batches(60));
    let synced = log.ends[29];
    let mark = Mark { log: 9, offset: synced, previous: 7, previous_bytes: 100 };
    log.push(9, &marked(&mark));
    for batch in batches(20) {
        log.push(9, &batch);
    }
    // The log 7 does not exist any more, because it is obsolete.
    for at in (0..log.bytes.len()).step_by(101) {
        let mut bytes = log.bytes.clone();
        bytes[at] ^= 0x20;
        fs::write(&path, bytes).unwrap();
        let found = found(&dir.0);
        // Bytes that fill up a block may have any value.
        match (at as u64) < synced && scan(&path, 9, None, &mut |_, _| {}).unwrap().behind > 0 {
            true => {
                assert!(found[0].contains("000009.log is damaged at offset "), "{at}: {found:?}")
            }
            false => assert_eq!(found, Vec::<String>::new(), "{at}"),
        }
    }
    // The mark that was kept in a ring also applies to a log whose own mark is lost.
    let torn = synced as usize - 10;
    fs::write(&path, &log.bytes[..torn]).unwrap();
    assert_eq!(found(&dir.0), Vec::<String>::new());
    keep(&dir.0, &mark).unwrap();
    assert!(found(&dir.0)[0].contains("it was written to disk up to offset"));
    fs::remove_file(&path).unwrap();
    assert!(found(&dir.0)[0].ends_with("000009.log is missing"));
    let mut needed = || Some(10);
    assert!(damaged(&dir.0, None, &mut needed).unwrap().is_empty());
}

#[test]
fn a_later_log_says_that_the_one_before_was_whole() {
    let dir = Scratch::new("later");
    let first = Written::new(7, &batches(30));
    let mark = Mark { log: 9, offset: 0, previous: 7, previous_bytes: first.bytes.len() as u64 };
    fs::write(dir.log(9), Written::new(9, &[marked(&mark)]).bytes).unwrap();
    fs::write(dir.log(7), &first.bytes).unwrap();
    assert!(found(&dir.0).is_empty());
    // Cut between two batches, where it would go unnoticed otherwise.
    fs::write(dir.log(7), &first.bytes[..first.ends[20] as usize]).unwrap();
    assert!(found(&dir.0)[0].contains("000007.log is damaged at offset"));
    // Without it, the one before it is the first one that is there; or it is obsolete.
    fs::remove_file(dir.log(7)).unwrap();
    assert!(found(&dir.0).is_empty());
    fs::write(dir.log(5), Written::new(5, &batches(3)).bytes).unwrap();
    assert!(found(&dir.0)[0].ends_with("000007.log is missing"));
    assert!(damaged(&dir.0, None, &mut || Some(9)).unwrap().is_empty());
}

#[test]
fn only_the_damaged_batch_is_missing_from_a_log_that_was_rewritten() {
    let dir = Scratch::new("rewrite");
    let whole = batches(60);
    let log = Written::new(9, &whole);
    for at in (0..log.bytes.len()).step_by(977) {
        let mut bytes = log.bytes.clone();
        bytes[at] ^= 1;
        fs::write(dir.log(9), bytes).unwrap();
        rewrite(&dir.0, None).unwrap();
        let left = content(&dir.log(9), 9);
        let hit = log.ends.iter().position(|end| (at as u64) < *end).unwrap();
        let mut expected = whole.clone();
        expected.remove(hit);
        assert!(left == expected || left == whole || hit == 59, "{at}: {}", left.len());
    }
}
