//! `nagi-bench query`: compares scans, groups, sorts, joins, text search and index builds with the bare engine.
//!
//! A million documents of 1 KB are stored in Nagi and, as bare records, in its storage engine behind a socket.
//! For each query the bare engine does only the work that no implementation could omit ([`questions`]); this is
//! the limit. The two run in turns, so that a slow minute of the machine affects both; the ratios are computed
//! from adjacent turns. A peer gets as many documents as it can handle, so times are shown per document.
//!
//! One query on each side before its first turn is not measured; it fills caches.
mod data;
mod questions;
mod results;

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, address, complaint};
use crate::process::{Scratch, Server};
use crate::progress::Progress;
use crate::report;
use crate::resident::{Resident, peak, resident_bytes};
use data::{DATABASE, DOCS, MANY, ORDERS, TEXTS};
use nagi_bson::{DocBuf, doc};
use questions::{BUILT, QUESTIONS, Question};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const SILENCE_MAX: Duration = Duration::from_secs(1800);
/// Cache per document, in addition to the documents' own bytes.
const CACHE_BYTES_A_DOCUMENT: u64 = 2000;
const CACHE_MEGABYTES_MIN: u64 = 256;

/// A server that is measured.
struct Side {
    name: String,
    connection: Connection,
    /// Number of documents of `DOCS`.
    scale: u64,
    /// The process, if this program started it.
    server: Option<Server>,
    is_raw: bool,
    load_s: f64,
    index_s: f64,
}

/// The measurements of one query on one side.
#[derive(Default)]
struct Taken {
    seconds: Vec<f64>,
    cpu_s: Vec<f64>,
    /// Resident memory of the server's process: before, and the maximum.
    resident: (u64, u64),
    /// The reason why the server refused the query.
    refused: Option<String>,
}

/// One query on all sides, in their order; none for the bare engine if the query needs no work of it.
struct Answered {
    question: &'static Question,
    taken: Vec<Option<Taken>>,
}

/// How often each query is run.
struct Bounds {
    rounds: u32,
    /// No further round begins on a side after this time.
    time: Duration,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let scale: u64 = args.number_in("documents", 1_000_000, 1000..=100_000_000)?;
    let peer_scale: u64 = args.number_in("peer-documents", 20_000, 1000..=100_000_000)?;
    let bounds = Bounds {
        rounds: args.number_in("rounds", 7, 1..=1000)?,
        time: Duration::from_secs(args.number_in("seconds", 20, 0..=86_400)?),
    };
    let asked = args.only(QUESTIONS, |one| one.name)?;
    let scratch = Scratch::new(args)?;
    let mut sides = start(args, &scratch, scale, peer_scale)?;
    for side in &mut sides {
        side.fill(&asked)?;
        report::say(&side.line());
    }
    let mut answered = Vec::new();
    let mut progress = Progress::new("questions", asked.len() as u64);
    for (at, question) in asked.into_iter().enumerate() {
        progress.at(at as u64);
        let taken = ask_all(&mut sides, question, &bounds)?;
        answered.push(Answered { question, taken });
    }
    drop(progress);
    report::say(&report::columns(&results::table(&sides, &answered)));
    report::say(&results::refusals(&sides, &answered));
    report::write(args, || results::page(&sides, &answered), || results::json(&sides, &answered))?;
    drop(sides);
    for name in ["query", "query-raw", "ferretdb", "ferretdb-state"] {
        let _ = fs::remove_dir_all(scratch.path.join(name));
    }
    Ok(())
}

/// The bare engine first, then Nagi, then the peers.
fn start(args: &Args, scratch: &Scratch, scale: u64, peer_scale: u64) -> Outcome<Vec<Side>> {
    let program = args.nagi()?;
    let all = data::count(DOCS, scale) + data::count(MANY, scale) + data::count(TEXTS, scale);
    let cache = ((all * CACHE_BYTES_A_DOCUMENT) >> 20).max(CACHE_MEGABYTES_MIN);
    let raw = Server::raw_queries(&scratch.path.join("query-raw"), cache)?;
    let more: Vec<&str> = args.all("server-option").collect();
    let nagi = Server::nagi_with(&program, &scratch.path.join("query"), &more)?;
    let mut sides = vec![Side::new("bare engine", raw, scale)?, Side::new("nagi", nagi, scale)?];
    sides[0].is_raw = true;
    if let Some(path) = args.text("peer-ferretdb").filter(|path| !path.is_empty()) {
        let peer = Server::ferretdb(Path::new(path), &scratch.path)?;
        sides.push(Side::new("ferretdb 1.24", peer, peer_scale)?);
    }
    for uri in args.all("uri") {
        let (name, uri) = uri.split_once('=').unwrap_or(("peer", uri));
        sides.push(Side::at(name, &address(uri)?, scale)?);
    }
    Ok(sides)
}

impl Side {
    fn new(name: &str, server: Server, scale: u64) -> Outcome<Side> {
        let side = Side::at(name, &server.address, scale)?;
        Ok(Side { server: Some(server), ..side })
    }

    fn at(name: &str, address: &str, scale: u64) -> Outcome<Side> {
        let connection = Connection::open(address)?;
        connection.be_patient(SILENCE_MAX)?;
        Ok(Side {
            name: name.to_owned(),
            connection,
            scale,
            server: None,
            is_raw: false,
            load_s: 0.0,
            index_s: 0.0,
        })
    }

    /// Loads the collections that the queries need, and builds the indexes that stay.
    fn fill(&mut self, asked: &[&Question]) -> Outcome {
        let needed = |name: &str| {
            let joins = asked.iter().any(|one| one.over == ORDERS);
            asked.iter().any(|one| one.over == name) || (name == DOCS && joins)
        };
        if !self.is_raw {
            self.connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
        }
        let begin = Instant::now();
        for collection in [DOCS, MANY, ORDERS, TEXTS].into_iter().filter(|name| needed(name)) {
            data::load(&mut self.connection, &self.name, collection, self.scale)?;
        }
        self.load_s = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        // The last index is not built in the bare engine, which has no use for it.
        for (collection, field, key, name) in [
            (DOCS, Some("ki"), doc! { "ki": 1 }, "kept"),
            (TEXTS, Some("_id"), doc! { "text": "text" }, "kept"),
            (DOCS, None, doc! { "many": 1, "percent": 1 }, "many_percent"),
        ] {
            if !needed(collection) || (self.is_raw && field.is_none()) {
                continue;
            }
            let command = match field.filter(|_| self.is_raw) {
                Some(field) => doc! { "build": collection, "fields": [field], "keep": true },
                None => questions::build(collection, key, name),
            };
            let reply = self.connection.command(command.as_doc()).map_err(failed("index"))?;
            if let Some(why) = complaint(reply.as_doc()) {
                report::say(&format!("{}: index of {collection}: {why:.200}\n", self.name));
            }
        }
        self.index_s = begin.elapsed().as_secs_f64();
        Ok(())
    }

    fn line(&self) -> String {
        format!(
            "{}: {} documents (index builds: {}), loaded in {:.1} s, indexes that stay in {:.1} s\n",
            self.name,
            self.scale,
            data::count(MANY, self.scale),
            self.load_s,
            self.index_s
        )
    }

    fn command(&self, question: &Question) -> Option<DocBuf> {
        match (self.is_raw, question.raw) {
            (false, _) => Some((question.ask)(self.scale)),
            (true, raw) => raw.map(|raw| raw(self.scale)),
        }
    }

    fn resident(&self) -> u64 {
        self.server.as_ref().and_then(|server| resident_bytes(server.id())).unwrap_or(0)
    }

    /// Runs the query once and returns the number of documents of the result.
    fn ask(&mut self, question: &Question, command: &DocBuf) -> Outcome<u64> {
        let first = command.as_doc().first();
        let has_cursor = first.is_some_and(|first| ["find", "aggregate"].contains(&first.name()));
        match has_cursor {
            true => self.connection.each(command.as_doc(), question.over, |_| Ok(())),
            false => self.connection.expect(command.as_doc()).map(|_| 0),
        }
    }

    /// Drops the index that a query has built.
    fn clean(&mut self, question: &Question) -> Outcome {
        if question.builds && !self.is_raw {
            let drop_it = doc! { "dropIndexes": (question.over), "index": BUILT, "$db": DATABASE };
            self.connection.expect(drop_it.as_doc())?;
        }
        Ok(())
    }

    /// Runs one measured turn.
    fn turn(&mut self, question: &Question, command: &DocBuf, into: &mut Taken) -> Outcome {
        let cpu = self.server.as_ref().map(Server::cpu_us);
        let begin = Instant::now();
        let rows = self.ask(question, command)?;
        into.seconds.push(begin.elapsed().as_secs_f64());
        if let (Some(before), Some(server)) = (cpu, &self.server) {
            into.cpu_s.push(server.cpu_us().saturating_sub(before) as f64 / 1e6);
        }
        match question.rows.map(|rows| rows(self.scale)).filter(|_| !self.is_raw) {
            Some(expected) if expected != rows => Err(Problem::Failed(format!(
                "{}, {}: {rows} documents instead of {expected}",
                self.name, question.name
            ))),
            _ => self.clean(question),
        }
    }
}

/// Runs a query on all sides in turns.
fn ask_all(
    sides: &mut [Side],
    question: &'static Question,
    bounds: &Bounds,
) -> Outcome<Vec<Option<Taken>>> {
    let commands: Vec<_> = sides.iter().map(|side| side.command(question)).collect();
    let mut taken: Vec<Option<Taken>> =
        commands.iter().map(|command| command.as_ref().map(|_| Taken::default())).collect();
    let watches: Vec<_> =
        sides.iter().map(|side| side.server.as_ref().map(|s| Resident::watch(s.id()))).collect();
    for round in 0..=bounds.rounds {
        for (side, (command, taken)) in sides.iter_mut().zip(commands.iter().zip(&mut taken)) {
            let (Some(command), Some(taken)) = (command, taken) else { continue };
            let over = taken.seconds.iter().sum::<f64>() > bounds.time.as_secs_f64();
            if over || taken.refused.is_some() {
                continue;
            }
            if round > 0 {
                side.turn(question, command, taken)?;
                continue;
            }
            // The first run shows if the query is supported; a build begins with its index dropped.
            taken.resident.0 = side.resident();
            match side.ask(question, command) {
                Ok(_) => side.clean(question)?,
                Err(Problem::Failed(why)) if !side.is_raw => taken.refused = Some(why),
                Err(other) => return Err(other),
            }
        }
    }
    for (watch, taken) in watches.into_iter().zip(&mut taken) {
        if let (Some(watch), Some(taken)) = (watch, taken) {
            taken.resident.1 = peak(&watch.finish());
        }
    }
    Ok(taken)
}
