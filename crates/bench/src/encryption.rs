//! `nagi-bench encryption`: what encryption at rest costs, operation by operation.
//!
//! In each round two servers get new data directories, one of them encrypted. Each operation runs on one and then on
//! the other; which one is first alternates. The data are about twice the cache, and reads bypass the page cache, so
//! scans and reads decrypt. A ratio is the median of those of the rounds; latencies are those of all rounds together.
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nagi_bson::json::JsonWriter;
use nagi_bson::{DocBuf, Value, doc};

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, integer};
use crate::histogram::Histogram;
use crate::master_key;
use crate::process::{Scratch, Server};
use crate::random::Random;
use crate::report;

const DATABASE: &str = "nagi_encryption";
const COLLECTION: &str = "c";
const BATCH: u64 = 1000;
const CHARACTERS: usize = 900;
/// Texts of so many documents differ, more than a compressor sees at once.
const TEXTS: u64 = 4096;
const SIDES: usize = 2;
/// The server accepts no smaller cache; with fewer documents than the default they fit into more of it.
const CACHE_LEAST_GB: f64 = 0.25;
/// One server and its data directory.
struct Side {
    program: PathBuf,
    data: PathBuf,
    more: Vec<String>,
    server: Option<(Server, Connection)>,
}

impl Side {
    fn new(program: &Path, data: PathBuf, more: Vec<String>) -> Side {
        Side { program: program.to_owned(), data, more, server: None }
    }

    fn start(&mut self) -> Outcome {
        let more: Vec<&str> = self.more.iter().map(String::as_str).collect();
        let server = Server::nagi_with(&self.program, &self.data, &more)?;
        let connection = Connection::open(&server.address)?;
        connection.be_patient(std::time::Duration::from_secs(600))?;
        self.server = Some((server, connection));
        Ok(())
    }

    /// CPU time of the server so far.
    fn cpu_us(&self) -> u64 {
        self.server.as_ref().map_or(0, |(server, _)| server.cpu_us())
    }

    fn run(&mut self, command: &DocBuf) -> Outcome<DocBuf> {
        match &mut self.server {
            Some((_, connection)) => connection.expect(command.as_doc()),
            None => Err(Problem::Failed("the server is not running".to_owned())),
        }
    }
}

/// What is measured: each call of an operation is timed.
struct Setting {
    documents: u64,
    operations: u64,
    texts: Vec<String>,
}

type Work = fn(&Setting, &mut Side, &mut Random, &mut Histogram) -> Outcome<u64>;

/// The operations in their order; each returns how many documents, or starts, it has done.
const WORKS: &[(&str, Work)] = &[
    ("insertMany", insert_many),
    ("insert", |setting, side, random, seen| inserts(setting, side, random, seen, false)),
    ("insert, journaled", |setting, side, random, seen| inserts(setting, side, random, seen, true)),
    ("scan", scan),
    ("read", reads),
    ("update", updates),
    ("index build", index),
    ("restart", restart),
    ("start after a kill", start_after_kill),
];

/// What was seen of one operation.
#[derive(Clone)]
struct Seen {
    /// Documents in a second, by round.
    rates: Vec<f64>,
    /// CPU time of the server in microseconds for a document, by round.
    cpu_us: Vec<f64>,
    latencies: Histogram,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { rates: Vec::new(), cpu_us: Vec::new(), latencies: Histogram::new() }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: u64 = args.number_in("documents", 600_000, 1000..=100_000_000)?;
    let operations: u64 = args.number_in("operations", 5000, 1..=100_000_000)?;
    let rounds: usize = args.number_in("rounds", 3, 1..=100)?;
    let program = args.nagi()?;
    let scratch = Scratch::new(args)?;
    // The texts are of 64 characters, so LZ4 does not make them much shorter.
    let half = documents as f64 * CHARACTERS as f64 / 2.0 / f64::from(1 << 30);
    let cache = half.max(CACHE_LEAST_GB);
    let mut plain = vec!["--wiredTigerCacheSizeGB".to_owned(), format!("{cache:.3}")];
    plain.extend(args.all("server-option").map(str::to_owned));
    let mut encrypted = plain.clone();
    encrypted.extend(master_key::options(&scratch.path.join("master.key"))?);
    let setting = Setting { documents, operations, texts: texts() };
    let mut seen = vec![[Seen::default(), Seen::default()]; WORKS.len()];
    for round in 0..rounds {
        report::say(&format!("encryption: round {} of {rounds}\n", round + 1));
        let folder = |name: &str| scratch.path.join(format!("{name}{round}"));
        let mut sides = [
            Side::new(&program, folder("plain"), plain.clone()),
            Side::new(&program, folder("encrypted"), encrypted.clone()),
        ];
        for side in &mut sides {
            side.start()?;
        }
        measure(&setting, round, &mut sides, &mut seen)?;
        for side in sides {
            let Side { data, server, .. } = side;
            drop(server);
            fs::remove_dir_all(data).map_err(failed("removing a data directory"))?;
        }
    }
    report::say(&report::columns(&table(&seen)));
    match args.text("json") {
        Some(path) => fs::write(path, json(&seen)).map_err(failed(path)),
        None => Ok(()),
    }
}

/// Runs each operation on both sides.
fn measure(
    setting: &Setting,
    round: usize,
    sides: &mut [Side; SIDES],
    seen: &mut [[Seen; SIDES]],
) -> Outcome {
    for (number, (_, work)) in WORKS.iter().enumerate() {
        for turn in 0..SIDES {
            let side = (round + number + turn) % SIDES;
            let mut random = Random::new((round * WORKS.len() + number) as u64);
            let place = &mut seen[number][side];
            let (begin, cpu_before) = (Instant::now(), sides[side].cpu_us());
            let count = work(setting, &mut sides[side], &mut random, &mut place.latencies)?;
            place.rates.push(count as f64 / begin.elapsed().as_secs_f64());
            // After a start it is that of another process.
            let cpu_us = sides[side].cpu_us().saturating_sub(cpu_before);
            place.cpu_us.push(cpu_us as f64 / count as f64);
        }
    }
    Ok(())
}

fn texts() -> Vec<String> {
    let text = |seed| {
        let mut random = Random::new(seed + 1);
        (0..CHARACTERS).map(|_| char::from(b'0' + random.below(64) as u8)).collect()
    };
    (0..TEXTS).map(text).collect()
}

fn timed<T>(seen: &mut Histogram, run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let begin = Instant::now();
    let result = run()?;
    seen.record(begin.elapsed().as_nanos() as u64);
    Ok(result)
}

fn document(setting: &Setting, id: u64) -> DocBuf {
    let text = setting.texts[(id % TEXTS) as usize].as_str();
    let k = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) as i64;
    doc! { "_id": (id as i64), "k": k, "n": 0, "text": text }
}

fn insert(setting: &Setting, ids: std::ops::Range<u64>, journaled: bool) -> DocBuf {
    DocBuf::build(|out| {
        out.put("insert", COLLECTION);
        out.array("documents", |list| {
            for id in ids {
                list.push(Value::Doc(document(setting, id).as_doc()));
            }
        });
        let concern = doc! { "w": 1, "j": journaled };
        out.put("writeConcern", Value::Doc(concern.as_doc()));
        out.put("$db", DATABASE);
    })
}

fn insert_many(
    setting: &Setting,
    side: &mut Side,
    _: &mut Random,
    seen: &mut Histogram,
) -> Outcome<u64> {
    for from in (0..setting.documents).step_by(BATCH as usize) {
        let command = insert(setting, from..(from + BATCH).min(setting.documents), false);
        timed(seen, || side.run(&command))?;
    }
    Ok(setting.documents)
}

fn inserts(
    setting: &Setting,
    side: &mut Side,
    _: &mut Random,
    seen: &mut Histogram,
    journaled: bool,
) -> Outcome<u64> {
    // Each waits for the disk.
    let count = if journaled { setting.operations / 10 } else { setting.operations }.max(1);
    let from = setting.documents + if journaled { setting.operations } else { 0 };
    for id in from..from + count {
        let command = insert(setting, id..id + 1, journaled);
        timed(seen, || side.run(&command))?;
    }
    Ok(count)
}

/// Reads every document at the server, which returns none.
fn scan(setting: &Setting, side: &mut Side, _: &mut Random, seen: &mut Histogram) -> Outcome<u64> {
    let command = doc! { "find": COLLECTION, "filter": { "n": { "$lt": 0 } }, "$db": DATABASE };
    timed(seen, || side.run(&command))?;
    Ok(setting.documents)
}

fn reads(
    setting: &Setting,
    side: &mut Side,
    random: &mut Random,
    seen: &mut Histogram,
) -> Outcome<u64> {
    for _ in 0..setting.operations {
        let id = random.below(setting.documents) as i64;
        let command = doc! { "find": COLLECTION, "filter": { "_id": id }, "$db": DATABASE };
        timed(seen, || side.run(&command))?;
    }
    Ok(setting.operations)
}

fn updates(
    setting: &Setting,
    side: &mut Side,
    random: &mut Random,
    seen: &mut Histogram,
) -> Outcome<u64> {
    for _ in 0..setting.operations {
        let id = random.below(setting.documents) as i64;
        let command = doc! {
            "update": COLLECTION,
            "updates": [{ "q": { "_id": id }, "u": { "$inc": { "n": 1 } } }],
            "$db": DATABASE
        };
        timed(seen, || side.run(&command))?;
    }
    Ok(setting.operations)
}

fn index(setting: &Setting, side: &mut Side, _: &mut Random, seen: &mut Histogram) -> Outcome<u64> {
    let command = doc! {
        "createIndexes": COLLECTION, "indexes": [{ "key": { "k": 1 }, "name": "k" }], "$db": DATABASE
    };
    timed(seen, || side.run(&command))?;
    Ok(setting.documents)
}

/// A stop in order, and a start.
fn restart(_: &Setting, side: &mut Side, _: &mut Random, seen: &mut Histogram) -> Outcome<u64> {
    timed(seen, || {
        if let Some((server, connection)) = side.server.take() {
            server.stop(connection)?;
        }
        side.start()
    })?;
    Ok(1)
}

/// A start that recovers a batch of inserts from the journal, and the check that they are there.
fn start_after_kill(
    setting: &Setting,
    side: &mut Side,
    _: &mut Random,
    seen: &mut Histogram,
) -> Outcome<u64> {
    let from = 10 * setting.documents;
    for from in (from..from + 10 * BATCH).step_by(BATCH as usize) {
        side.run(&insert(setting, from..from + BATCH, false))?;
    }
    if let Some((server, _)) = side.server.take() {
        server.kill().map_err(failed("killing a server"))?;
    }
    timed(seen, || side.start())?;
    let command = doc! {
        "count": COLLECTION, "query": { "_id": { "$gte": (from as i64) } }, "$db": DATABASE
    };
    match integer(side.run(&command)?.get("n")) {
        Some(n) if n as u64 == 10 * BATCH => Ok(1),
        other => Err(Problem::Failed(format!("after the kill {other:?} documents are left"))),
    }
}

fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// The median of the quotients of each round.
fn quotient(of: &[f64], by: &[f64]) -> f64 {
    middle(of.iter().zip(by).map(|(of, by)| of / by).collect())
}

/// The rate of the encrypted server by that of the plain one.
fn ratio(sides: &[Seen; SIDES]) -> f64 {
    let [plain, encrypted] = sides;
    quotient(&encrypted.rates, &plain.rates)
}

/// The CPU time of the encrypted server by that of the plain one. On a busy machine it varies less than the rate.
fn cpu_ratio(sides: &[Seen; SIDES]) -> f64 {
    let [plain, encrypted] = sides;
    quotient(&encrypted.cpu_us, &plain.cpu_us)
}

fn table(seen: &[[Seen; SIDES]]) -> Vec<Vec<String>> {
    let head = [
        "operation",
        "plain/s",
        "encrypted/s",
        "ratio",
        "CPU",
        "p50 ms",
        "encrypted",
        "p99 ms",
        "encrypted",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for ((name, _), sides) in WORKS.iter().zip(seen) {
        let rate = |side: &Seen| {
            let rate = middle(side.rates.clone());
            if rate < 100.0 { format!("{rate:.2}") } else { format!("{rate:.0}") }
        };
        let milliseconds =
            |side: &Seen, share| format!("{:.3}", side.latencies.quantile(share) as f64 / 1e6);
        let [plain, encrypted] = sides;
        rows.push(vec![
            (*name).to_owned(),
            rate(plain),
            rate(encrypted),
            format!("{:.2}", ratio(sides)),
            if name.contains("start") { String::new() } else { format!("{:.2}", cpu_ratio(sides)) },
            milliseconds(plain, 0.5),
            milliseconds(encrypted, 0.5),
            milliseconds(plain, 0.99),
            milliseconds(encrypted, 0.99),
        ]);
    }
    rows
}

fn json(seen: &[[Seen; SIDES]]) -> String {
    let put = |w: &mut JsonWriter<'_>, name: &str, sides: &[Seen; SIDES]| {
        w.key("operation").string(name);
        w.key("ratio").fixed(ratio(sides), 4);
        w.key("cpu_ratio").fixed(cpu_ratio(sides), 4);
        for (side, seen) in ["plain", "encrypted"].into_iter().zip(sides) {
            w.key(&format!("{side}_per_second")).fixed(middle(seen.rates.clone()), 2);
            for (share, percent) in [(0.5, 50), (0.99, 99)] {
                let ns = seen.latencies.quantile(share);
                w.key(&format!("{side}_p{percent}_ns")).literal(ns);
            }
        }
    };
    JsonWriter::file(|w| {
        w.array(|w| {
            for ((name, _), sides) in WORKS.iter().zip(seen) {
                w.object(|w| put(w, name, sides));
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_those_of_the_rounds() {
        let side = |rates: &[f64]| {
            let cpu_us = rates.iter().map(|rate| 1.0 / rate).collect();
            Seen { rates: rates.to_vec(), cpu_us, ..Seen::default() }
        };
        let sides = [side(&[100.0, 50.0, 10.0]), side(&[90.0, 50.0, 1.0])];
        assert!((ratio(&sides) - 0.9).abs() < 1e-9);
        let rows = table(&vec![sides; WORKS.len()]);
        assert_eq!(rows.len(), WORKS.len() + 1);
        assert_eq!(rows[1][..5], ["insertMany", "50.00", "50.00", "0.90", "1.11"]);
    }
}
