//! `nagi-bench embedded`: the same commands through a socket and in the library, in turn.
//!
//! A server and the library each have a folder with the same documents. In each round, both run the same number of
//! point reads and of inserts, one after the other. A ratio is that of the medians: it is what the socket, the frames
//! and the change of threads cost.
use std::path::{Path, PathBuf};
use std::time::Instant;

use nagi::{Database, Options};
use nagi_bson::{DocBuf, doc};

use crate::args::{Args, Outcome, failed};
use crate::client::Connection;
use crate::histogram::Histogram;
use crate::process::{Scratch, Server};
use crate::random::Random;
use crate::report;

const DATABASE: &str = "nagi_embedded";
/// Bytes of the text in each document.
const TEXT_BYTES: usize = 200;
/// Documents of one command while the folders are filled.
const BATCH: u64 = 1000;

/// The two ways of running a command.
trait Target {
    fn run(&mut self, command: &DocBuf) -> Outcome;
}

impl Target for Connection {
    fn run(&mut self, command: &DocBuf) -> Outcome {
        self.expect(command.as_doc()).map(drop)
    }
}

impl Target for Database {
    fn run(&mut self, command: &DocBuf) -> Outcome {
        self.run_command(DATABASE, command).map(drop).map_err(failed("a command of the library"))
    }
}

/// An operation, and the number of the next document to insert.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Insert,
}

/// Latencies by operation and target.
struct Found {
    kind: Kind,
    socket: Histogram,
    embedded: Histogram,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents = args.number_in("documents", 100_000_u64, 1..=100_000_000)?;
    let operations = args.number_in("operations", 20_000_u64, 1..=100_000_000)?;
    let rounds = args.number_in("rounds", 5_u64, 1..=1000)?;
    let program = args.nagi()?;
    let scratch = Scratch::new(args)?;
    let server = Server::nagi(&program, &folder(&scratch.path, "server")?)?;
    let mut socket = Connection::open(&server.address)?;
    let begin = Instant::now();
    let options = Options::new().cache_mb(256);
    let mut embedded = Database::open(folder(&scratch.path, "library")?, options)
        .map_err(failed("opening the library's folder"))?;
    let opened = begin.elapsed();
    fill(&mut socket, documents)?;
    fill(&mut embedded, documents)?;
    let empty = |kind| Found { kind, socket: Histogram::new(), embedded: Histogram::new() };
    let mut all = [empty(Kind::Read), empty(Kind::Insert)];
    for round in 0..rounds {
        let next = documents + round * operations;
        for found in &mut all {
            let commands = commands(found.kind, documents, next, operations, round);
            measure(&mut socket, &commands, &mut found.socket)?;
            measure(&mut embedded, &commands, &mut found.embedded)?;
        }
    }
    report::say(&report::columns(&table(&all)));
    report::say(&format!("the library opened an empty folder in {} ms\n", opened.as_millis()));
    embedded.close().map_err(failed("closing the library's folder"))?;
    server.stop(socket)
}

fn folder(base: &Path, name: &str) -> Outcome<PathBuf> {
    let path = base.join(name);
    std::fs::create_dir_all(&path).map_err(failed("creating a data directory"))?;
    Ok(path)
}

fn document(number: u64) -> DocBuf {
    let text: String = (0..TEXT_BYTES).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    doc! { "_id": (number as i64), "n": (number as i64), "text": (text.as_str()) }
}

fn insert(numbers: std::ops::Range<u64>) -> DocBuf {
    DocBuf::build(|out| {
        out.put("insert", "c");
        out.array("documents", |list| {
            numbers.for_each(|number| list.push_doc(document(number).as_doc()));
        });
        out.put("$db", DATABASE);
    })
}

fn fill(target: &mut dyn Target, documents: u64) -> Outcome {
    target.run(&doc! { "drop": "c", "$db": DATABASE })?;
    let mut from = 0;
    while from < documents {
        let to = (from + BATCH).min(documents);
        target.run(&insert(from..to))?;
        from = to;
    }
    Ok(())
}

/// The commands of one round, built before the time is taken.
fn commands(kind: Kind, documents: u64, next: u64, count: u64, seed: u64) -> Vec<DocBuf> {
    let mut random = Random::new(seed + 1);
    (0..count)
        .map(|number| match kind {
            Kind::Insert => insert(next + number..next + number + 1),
            Kind::Read => {
                let id = random.below(documents) as i64;
                doc! {
                    "find": "c", "filter": { "_id": id }, "limit": 1, "singleBatch": true,
                    "$db": DATABASE
                }
            }
        })
        .collect()
}

fn measure(target: &mut dyn Target, commands: &[DocBuf], into: &mut Histogram) -> Outcome {
    for command in commands {
        let begin = Instant::now();
        target.run(command)?;
        into.record(begin.elapsed().as_nanos() as u64);
    }
    Ok(())
}

fn table(all: &[Found]) -> Vec<Vec<String>> {
    let head = ["operation", "socket p50 us", "library p50 us", "ratio", "p99 us", "p99 us "];
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
    let row = |found: &Found| {
        let (socket, embedded) = (found.socket.quantile(0.5), found.embedded.quantile(0.5));
        vec![
            match found.kind {
                Kind::Read => "point read".to_owned(),
                Kind::Insert => "insert".to_owned(),
            },
            us(socket),
            us(embedded),
            format!("{:.1}x", socket as f64 / embedded.max(1) as f64),
            us(found.socket.quantile(0.99)),
            us(found.embedded.quantile(0.99)),
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec()).chain(all.iter().map(row)).collect()
}
