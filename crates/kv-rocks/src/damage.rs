//! Registry of damage that RocksDB has found, so that each place is logged once.
//!
//! RocksDB's checksums detect damage; its error texts name the file and the offset of the block. Every read of a
//! damaged block fails in the same way, so the log has one line per place instead of one per read.
//!
//! Pages that the disk cannot read are also turned into blocks with a wrong checksum (native/read_back.cc). These
//! places are remembered here, so that the error text can give the reason.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

/// Limit of remembered places, so that a failing disk cannot exhaust memory.
const PLACES_MAX: usize = 10_000;

/// The place of damage, as far as an error text names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) offset: Option<u64>,
}

/// Parses file and offset from a text such as
/// `Corruption: block checksum mismatch: stored = 1, computed = 2 in /d/000012.sst offset 40 size 9`.
pub(crate) fn place(text: &str) -> Option<Place> {
    let path = &text[text.find('/')?..];
    let table = path.find(".sst").or_else(|| path.find(".blob").map(|at| at + 1));
    let end = match table {
        Some(at) => at + ".sst".len(),
        None => path.find([' ', ':', ',']).unwrap_or(path.len()),
    };
    let (file, rest) = path.split_at(end);
    let number = |rest: &str| {
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok())
    };
    let offset = rest.find("offset").and_then(|at| number(&rest[at + "offset".len()..]));
    Some(Place { file: file.to_owned(), offset })
}

/// Places that the disk could not read, with its error; the most recent ones.
static UNREADABLE: Mutex<BTreeMap<(String, u64), String>> = Mutex::new(BTreeMap::new());

/// True while this process repairs: advice to start with `--repair` is left out.
static REPAIRING: AtomicBool = AtomicBool::new(false);

/// Leaves the advice to repair out of the log from now on: the process is a repair, and ends with it.
pub(crate) fn expect_repair() {
    REPAIRING.store(true, Ordering::Relaxed);
}

/// The advice, unless this process repairs.
fn advice(text: &'static str) -> &'static str {
    if REPAIRING.load(Ordering::Relaxed) { "" } else { text }
}

/// Remembers that a page of a file cannot be read, and logs it the first time.
#[cold]
pub(crate) fn unreadable(file: &str, offset: u64, text: &str) {
    let mut places = UNREADABLE.lock();
    if places.len() >= PLACES_MAX || places.contains_key(&(file.to_owned(), offset)) {
        return;
    }
    places.insert((file.to_owned(), offset), text.to_owned());
    drop(places);
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    log::error!(target: "STORAGE", id = 7_702_063, file, offset, error = text;
        "The disk cannot read this part of a data file. The data stored there is damaged; other data \
         can be used. See the system's log, replace the disk{}", advice(", and start once with --repair"));
}

/// The text of a damage, with the disk's error if it could not read the block.
pub(crate) fn explained(text: String) -> String {
    let Some(Place { file, offset }) = place(&text) else { return text };
    let size = text.rfind(" size ").and_then(|at| {
        let digits = text[at + " size ".len()..].split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse::<u64>().ok())
    });
    let (first, last) = match offset {
        // The block's trailer follows it.
        Some(offset) => (offset, offset.saturating_add(size.unwrap_or(0)).saturating_add(8)),
        None => (0, u64::MAX),
    };
    let from = (file.clone(), first.saturating_sub(PAGE_BYTES - 1));
    let places = UNREADABLE.lock();
    match places.range(from..=(file, last)).next() {
        Some((_, said)) if !text.contains(said.as_str()) => format!("{text}: {said}"),
        _ => text,
    }
}

/// Smallest unit of a read.
const PAGE_BYTES: u64 = 4096;

/// Logs damage, the first time it is found at this place.
#[cold]
pub(crate) fn note(text: &str) {
    static SEEN: OnceLock<Mutex<HashSet<Place>>> = OnceLock::new();
    let known = place(text);
    let found = known.clone().unwrap_or(Place { file: String::new(), offset: None });
    let mut seen = SEEN.get_or_init(Mutex::default).lock();
    if seen.len() >= PLACES_MAX || !seen.insert(found) {
        return;
    }
    drop(seen);
    let advice = advice("; start once with --repair");
    let Some(Place { file, offset }) = known else {
        log::error!(target: "STORAGE", id = 7_702_032, error = text;
            "Data corruption detected: this part of the data cannot be read{advice}");
        return;
    };
    let file = file.as_str();
    match offset.map(|offset| i64::try_from(offset).unwrap_or(i64::MAX)) {
        Some(offset) => log::error!(target: "STORAGE", id = 7_702_032, file, offset, error = text;
            "Data corruption detected: this part of the data cannot be read{advice}"),
        None => log::error!(target: "STORAGE", id = 7_702_032, file, error = text;
            "Data corruption detected: this part of the data cannot be read{advice}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_the_texts() {
        for (text, file, offset) in [
            (
                "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in \
                 /d/a b/000012.sst offset 4096 size 120",
                "/d/a b/000012.sst",
                Some(4096),
            ),
            (
                "Corruption: Bad table magic number: expected 1, found 2 in /d/000009.sst",
                "/d/000009.sst",
                None,
            ),
            (
                "IO error: No such file or directory: While open a file: /d/7.sst: No",
                "/d/7.sst",
                None,
            ),
            (
                "Corruption: file is too short (3 bytes) to be an sstable: /d/MANIFEST-000004",
                "/d/MANIFEST-000004",
                None,
            ),
        ] {
            let expected = Place { file: file.to_owned(), offset };
            assert_eq!(place(text), Some(expected), "{text}");
        }
        assert_eq!(place("Corruption: no path"), None);
    }

    #[test]
    fn what_the_disk_said_stands_with_the_damage() {
        let said = "IO error: While pread offset 8192: /unread/000012.sst: Input/output error";
        unreadable("/unread/000012.sst", 8192, said);
        let block = |file: &str, offset: u64| {
            format!(
                "Corruption: block checksum mismatch in /unread/{file}.sst offset {offset} size 4000"
            )
        };
        for (text, explains) in [
            (block("000012", 4200), true),
            (block("000012", 4096), false),
            (block("000012", 12_287), true),
            (block("000012", 12_288), false),
            (block("000013", 8192), false),
            ("Corruption: Bad table magic number in /unread/000012.sst".to_owned(), true),
        ] {
            let explained = explained(text.clone());
            assert_eq!(explained.contains("Input/output error"), explains, "{explained}");
            assert!(explained.starts_with(&text));
            assert_eq!(place(&explained).map(|p| p.file), place(&text).map(|p| p.file));
        }
    }
}
