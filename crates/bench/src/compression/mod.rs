//! `nagi-bench compression`: inserts and reads large documents under each compressor.
//!
//! This repeats an experiment of 2016: 10,000 documents of 1,000,000 characters ("0123456789" repeated) are
//! inserted one by one, each acknowledged. Measured are the time of the inserts, the disk space afterwards, and
//! the time to read all documents after a restart. Each compressor gets its own server. With `--uri` all runs
//! use that server, in a collection that selects the compressor; the cache is then warm, because the server is
//! not restarted.
//!
//! `--text words` inserts sentences instead, which compress as ordinary text does.
mod results;

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, address, complaint, frame, integer};
use crate::histogram::Histogram;
use crate::inserts::insert_timed;
use crate::process::{Scratch, Server, disk_bytes};
use crate::progress::Progress;
use crate::random::Random;
use crate::report;
use crate::resident::{Resident, peak};
use crate::timeline::Timeline;
use nagi_bson::{DocBuf, Value, doc};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_compression";
const COLLECTION: &str = "test";
const COMPRESSORS: &[&str] = &["none", "snappy", "zlib", "zstd", "lz4"];
/// Inserts that take longer than this are marked in the plots.
const SLOW: Duration = Duration::from_millis(100);
/// Maximum number of characters: the largest document, less the fields around the text.
const CHARACTERS_MAX: usize = (16 << 20) - 100;
const DIGITS: &str = "0123456789";
const WORDS: &[&str] = &[
    "the",
    "storage",
    "engine",
    "keeps",
    "a",
    "document",
    "in",
    "blocks",
    "of",
    "four",
    "kilobytes",
    "and",
    "writes",
    "them",
    "when",
    "memory",
    "is",
    "full",
    "so",
    "that",
    "readers",
    "never",
    "wait",
    "for",
    "disk",
];

/// The documents to insert.
#[derive(Clone, Copy)]
struct Load {
    documents: u64,
    characters: usize,
    words: bool,
    cache_gigabytes: f64,
}

/// The figures of one compressor.
pub(crate) struct Run {
    compressor: String,
    insert_seconds: f64,
    inserts: Histogram,
    timeline: Timeline,
    read_seconds: f64,
    /// As `collStats` reports them.
    data_bytes: u64,
    storage_bytes: u64,
    /// The size of the data directory after the server has stopped, log file included.
    folder_bytes: Option<u64>,
    resident: Vec<(f64, u64)>,
    cpu_us: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let load = Load {
        documents: args.number_in("documents", 10_000, 1..=100_000_000)?,
        characters: args.number_in("characters", 1_000_000, 1..=CHARACTERS_MAX)?,
        words: args.word("text", "digits", &["digits", "words"])? == "words",
        cache_gigabytes: args.number_in("cache-gigabytes", 1.0, 0.01..=10_000.0)?,
    };
    let compressors = args.words("compressors", COMPRESSORS)?;
    let scratch = Scratch::new(args)?;
    let mut done = Vec::new();
    for name in compressors {
        let run = match args.text("uri") {
            Some(uri) => peer(&address(uri)?, name, load),
            None => own(&args.nagi()?, &scratch.path.join(name), name, load),
        };
        match run {
            Ok(run) => {
                report::say(&results::line(&run));
                done.push(run);
            }
            // A server that lacks this compressor still has the others.
            Err(Problem::Failed(text)) if text.contains(REFUSED) => report::say(&text),
            Err(other) => return Err(other),
        }
    }
    report::say(&report::columns(&results::table(&done)));
    report::write(
        args,
        || results::page(&done, load.documents, load.characters),
        || results::json(&done),
    )?;
    Ok(())
}

const REFUSED: &str = "refuses the compressor";

/// Runs on a server started for this compressor and restarted before the read.
fn own(program: &Path, folder: &Path, compressor: &str, load: Load) -> Outcome<Run> {
    let _ = fs::remove_dir_all(folder);
    let cache = load.cache_gigabytes.to_string();
    let options =
        ["--wiredTigerCollectionBlockCompressor", compressor, "--wiredTigerCacheSizeGB", &cache];
    let server = Server::nagi_with(program, folder, &options)?;
    let watch = Resident::watch(server.id());
    let mut connection = Connection::open(&server.address)?;
    let (begin, cpu) = (Instant::now(), server.cpu_us());
    let (inserts, timeline) = insert(&mut connection, load, compressor)?;
    let insert_seconds = begin.elapsed().as_secs_f64();
    let cpu_us = server.cpu_us().saturating_sub(cpu);
    let (data_bytes, storage_bytes) = sizes(&mut connection)?;
    let mut resident = watch.finish();
    server.stop(connection)?;
    let folder_bytes = Some(disk_bytes(folder));
    let server = Server::nagi_with(program, folder, &options)?;
    let watch = Resident::watch(server.id());
    let mut connection = Connection::open(&server.address)?;
    let read_seconds = read(&mut connection, load, compressor)?;
    let offset = resident.last().map_or(0.0, |last| last.0);
    resident.extend(watch.finish().into_iter().map(|(at, bytes)| (offset + at, bytes)));
    server.stop(connection)?;
    let _ = fs::remove_dir_all(folder);
    Ok(Run {
        compressor: compressor.to_owned(),
        insert_seconds,
        inserts,
        timeline,
        read_seconds,
        data_bytes,
        storage_bytes,
        folder_bytes,
        resident,
        cpu_us: Some(cpu_us),
    })
}

/// Runs on a server that is already running.
fn peer(target: &str, compressor: &str, load: Load) -> Outcome<Run> {
    let mut connection = Connection::open(target)?;
    let _ = connection.command(doc! { "drop": COLLECTION, "$db": DATABASE }.as_doc());
    let config = format!("block_compressor={compressor}");
    let create = doc! {
        "create": COLLECTION,
        "storageEngine": { "wiredTiger": { "configString": (config.as_str()) } },
        "$db": DATABASE
    };
    let reply = connection.command(create.as_doc()).map_err(failed("create"))?;
    if let Some(text) = complaint(reply.as_doc()) {
        return Err(Problem::Failed(format!("{target} {REFUSED} {compressor}: {text}\n")));
    }
    let begin = Instant::now();
    let (inserts, timeline) = insert(&mut connection, load, compressor)?;
    let insert_seconds = begin.elapsed().as_secs_f64();
    let (data_bytes, storage_bytes) = sizes(&mut connection)?;
    let read_seconds = read(&mut connection, load, compressor)?;
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    Ok(Run {
        compressor: compressor.to_owned(),
        insert_seconds,
        inserts,
        timeline,
        read_seconds,
        data_bytes,
        storage_bytes,
        folder_bytes: None,
        resident: Vec::new(),
        cpu_us: None,
    })
}

fn insert(
    connection: &mut Connection,
    load: Load,
    compressor: &str,
) -> Outcome<(Histogram, Timeline)> {
    let text = text(load);
    let mut frame = frame(
        DocBuf::build(|w| {
            w.put("insert", COLLECTION);
            w.array("documents", |list| {
                list.doc(|w| {
                    w.put("_id", Value::Int64(ID_MARK));
                    w.put("text", text.as_str());
                });
            });
            w.put("$db", DATABASE);
        })
        .as_doc(),
    );
    let mark = ID_MARK.to_le_bytes();
    let at = frame.windows(8).position(|bytes| bytes == mark);
    let at = at.ok_or_else(|| Problem::Failed("the frame has no _id".to_owned()))?;
    let mut latencies = Histogram::new();
    let mut timeline = Timeline::new(Instant::now(), SLOW);
    let mut progress = Progress::new(&format!("insert {compressor}"), load.documents);
    for id in 0..load.documents {
        frame[at..at + 8].copy_from_slice(&id.to_le_bytes());
        insert_timed(connection, &frame, &mut latencies, &mut timeline)?;
        progress.at(id);
    }
    Ok((latencies, timeline))
}

/// Placeholder for the `_id`, which is written into the built frame.
const ID_MARK: i64 = 0x4E41_4749_5041_434B;

/// The text of the documents. In the original experiment all are equal; sentences are drawn at random.
fn text(load: Load) -> String {
    let mut text = String::with_capacity(load.characters + 16);
    let mut random = Random::new(1);
    while text.len() < load.characters {
        match load.words {
            false => text.push_str(DIGITS),
            true => {
                text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
                text.push(' ');
            }
        }
    }
    text.truncate(load.characters);
    text
}

/// `size` and `storageSize`, after everything written has reached the disk.
fn sizes(connection: &mut Connection) -> Outcome<(u64, u64)> {
    connection.expect(doc! { "fsync": 1, "$db": "admin" }.as_doc())?;
    let stats = connection.expect(doc! { "collStats": COLLECTION, "$db": DATABASE }.as_doc())?;
    let figure = |name| integer(stats.get(name)).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    Ok((figure("size"), figure("storageSize")))
}

/// Reads all documents in order and checks the text of each. Returns the seconds it took.
fn read(connection: &mut Connection, load: Load, compressor: &str) -> Outcome<f64> {
    let begin = Instant::now();
    let mut progress = Progress::new(&format!("read {compressor}"), load.documents);
    let mut seen = 0;
    let mut reply = connection.expect(doc! { "find": COLLECTION, "$db": DATABASE }.as_doc())?;
    loop {
        let Value::Doc(cursor) = reply.get("cursor") else {
            return Err(Problem::Failed("a reply without cursor".to_owned()));
        };
        let batch = match (cursor.get("firstBatch"), cursor.get("nextBatch")) {
            (Value::Array(batch), _) | (_, Value::Array(batch)) => batch,
            _ => return Err(Problem::Failed("a reply without batch".to_owned())),
        };
        for value in batch.iter() {
            let length = value.as_doc().and_then(|doc| doc.get("text").as_str()).map(str::len);
            if length != Some(load.characters) {
                return Err(Problem::Failed(format!("document {seen} has text of {length:?}")));
            }
            seen += 1;
        }
        progress.at(seen);
        let id = integer(cursor.get("id")).unwrap_or(0);
        if id == 0 {
            break;
        }
        let more =
            doc! { "getMore": (Value::Int64(id)), "collection": COLLECTION, "$db": DATABASE };
        reply = connection.expect(more.as_doc())?;
    }
    if seen != load.documents {
        return Err(Problem::Failed(format!("{seen} of {} documents are there", load.documents)));
    }
    Ok(begin.elapsed().as_secs_f64())
}

impl Run {
    fn insert_mb_per_second(&self) -> f64 {
        self.data_bytes as f64 / 1e6 / self.insert_seconds
    }

    fn read_mb_per_second(&self) -> f64 {
        self.data_bytes as f64 / 1e6 / self.read_seconds
    }

    fn resident_peak(&self) -> Option<u64> {
        (!self.resident.is_empty()).then(|| peak(&self.resident))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_length() {
        for words in [false, true] {
            let load = Load { documents: 1, characters: 1003, words, cache_gigabytes: 1.0 };
            assert_eq!(text(load).len(), 1003);
        }
        let load = Load { documents: 1, characters: 12, words: false, cache_gigabytes: 1.0 };
        assert_eq!(text(load), "012345678901");
    }
}
