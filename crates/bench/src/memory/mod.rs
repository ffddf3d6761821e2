//! `nagi-bench memory`: compares resident memory with its bound while large documents pass through every kind
//! of operation.
//!
//! This repeats an experiment of 2015: documents of a million characters are inserted, read back, sorted,
//! grouped and indexed with several cache sizes. Then idle connections are opened in addition. Resident memory
//! is sampled every tenth of a second; a sample above `cacheSizeGB x 1.10 + 64 MiB` fails the run.
mod results;

use crate::args::{Args, Outcome, Problem};
use crate::client::{Connection, address};
use crate::process::{Scratch, Server};
use crate::progress::Progress;
use crate::report;
use crate::resident::{Resident, resident_bytes};
use nagi_bson::{DocBuf, Value, doc};
use results::{Phase, Run};
use std::fs;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_memory";
const COLLECTION: &str = "big";
const CACHES: &str = "1,2";
/// Documents per insert: ten million characters, as `insertMany` of the shell sends them.
const BATCH: u64 = 10;
/// Time for which idle connections stay open: servers release buffers after a while.
const REST: Duration = Duration::from_secs(12);
/// Read timeout: a sort of ten gigabytes replies only when it has finished.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
/// A server may exceed its budget by a tenth plus this.
const SLACK_BYTES: f64 = 67_108_864.0;
const GIB: f64 = 1_073_741_824.0;

struct Plan {
    documents: u64,
    characters: usize,
    caches: Vec<f64>,
    connections: usize,
}

impl Plan {
    fn parse(args: &Args) -> Outcome<Plan> {
        Ok(Plan {
            documents: args.number_in("documents", 10_000, 1..=10_000_000)?,
            characters: args.number_in("characters", 1_000_000, 1..=1_600_000)?,
            caches: args.numbers_in("caches", CACHES, 0.05..=10_000.0)?,
            connections: args.number_in("connections", 2000, 0..=50_000)?,
        })
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let plan = Plan::parse(args)?;
    let mut runs = Vec::new();
    if let Some(uri) = args.text("uri") {
        let process = args.number("pid", 0)?;
        if resident_bytes(process).is_none() {
            return Err(Problem::Usage("--uri needs --pid, the server's process\n".to_owned()));
        }
        runs.push(measure(&plan, plan.caches[0], &address(uri)?, process)?);
    } else {
        let scratch = Scratch::new(args)?;
        for cache in &plan.caches {
            let folder = scratch.path.join(format!("memory-{cache}"));
            let size = cache.to_string();
            let mut more = vec!["--wiredTigerCacheSizeGB", size.as_str()];
            more.extend(args.all("server-option"));
            let server = Server::nagi_with(&args.nagi()?, &folder, &more)?;
            let done = measure(&plan, *cache, &server.address, server.id());
            drop(server);
            let _ = fs::remove_dir_all(&folder);
            runs.push(done?);
        }
    }
    report::say(&report::columns(&results::table(&runs)));
    report::write(args, || results::page(&runs), || results::json(&runs))?;
    match runs.iter().map(Run::samples_over).sum::<usize>() {
        0 => Ok(()),
        over => Err(Problem::Failed(format!("{over} samples were above the bound"))),
    }
}

/// Runs all phases against one server.
fn measure(plan: &Plan, cache: f64, server: &str, process: u32) -> Outcome<Run> {
    let bound = (cache * GIB * 1.10 + SLACK_BYTES) as u64;
    let mut run = Run { cache, bound, phases: Vec::new() };
    let mut connection = Connection::open(server)?;
    connection.be_patient(SILENCE_MAX)?;
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    type Work<'w> = (&'static str, &'w dyn Fn(&mut Connection) -> Outcome<u64>);
    let works: [Work<'_>; 6] = [
        ("insert", &|c| insert(c, plan)),
        ("read", &|c| find(c, &[])),
        ("sort", &|c| find(c, &[("n", 1)])),
        ("group", &group),
        ("index", &index),
        ("idle connections", &|_| rest(server, plan.connections)),
    ];
    for (name, work) in works {
        let watched = Resident::watch(process);
        let begin = Instant::now();
        let count = work(&mut connection)?;
        let seconds = begin.elapsed().as_secs_f64();
        let phase = Phase { name, count, seconds, samples: watched.finish() };
        report::say(&run.line(&phase));
        run.phases.push(phase);
    }
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    Ok(run)
}

fn insert(connection: &mut Connection, plan: &Plan) -> Outcome<u64> {
    let text = "0123456789".repeat(plan.characters / 10 + 1);
    let text = &text[..plan.characters];
    let mut progress = Progress::new("insert", plan.documents);
    for start in (0..plan.documents).step_by(BATCH as usize) {
        let end = (start + BATCH).min(plan.documents);
        let body = DocBuf::build(|out| {
            out.put("insert", COLLECTION);
            out.array("documents", |list| {
                for id in start..end {
                    // The values are scattered, so that a sort by them has work to do.
                    let n = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                    let one = doc! { "_id": (id as i64), "n": (n as i64), "text": text };
                    list.push(Value::Doc(one.as_doc()));
                }
            });
            out.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
        progress.at(end);
    }
    Ok(plan.documents)
}

/// Reads all documents in this order.
fn find(connection: &mut Connection, sort: &[(&str, i32)]) -> Outcome<u64> {
    let command = DocBuf::build(|out| {
        out.put("find", COLLECTION);
        out.doc("sort", |keys| sort.iter().for_each(|(name, way)| keys.put(name, *way)));
        out.put("allowDiskUse", true);
        out.put("$db", DATABASE);
    });
    connection.each(command.as_doc(), COLLECTION, |_| Ok(()))
}

fn group(connection: &mut Connection) -> Outcome<u64> {
    let command = doc! {
        "aggregate": COLLECTION,
        "pipeline": [
            { "$group": {
                "_id": { "$mod": ["$n", 1000] },
                "count": { "$sum": 1 },
                "text": { "$first": "$text" },
                "length": { "$max": { "$strLenBytes": "$text" } }
            } },
            { "$project": { "count": 1, "length": 1 } }
        ],
        "cursor": {}, "allowDiskUse": true, "$db": DATABASE
    };
    connection.each(command.as_doc(), COLLECTION, |_| Ok(()))
}

fn index(connection: &mut Connection) -> Outcome<u64> {
    let command = doc! {
        "createIndexes": COLLECTION,
        "indexes": [{ "key": { "n": 1 }, "name": "n_1" }],
        "$db": DATABASE
    };
    connection.expect(command.as_doc()).map(|_| 1)
}

/// Opens connections, leaves them idle, and closes them.
fn rest(server: &str, count: usize) -> Outcome<u64> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut connection = Connection::open(server)?;
        connection.expect(doc! { "ping": 1, "$db": "admin" }.as_doc())?;
        open.push(connection);
    }
    std::thread::sleep(REST);
    Ok(open.len() as u64)
}
