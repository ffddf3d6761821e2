//! `nagi bench crash`: `kill -9` at random moments under concurrent writes, and what must be there after.
//!
//!   round:   start -> verify what the last round left -> writers run -> kill -9 -> start -> verify ...
//!
//! Verified after each reopen, for each document by its own history ([`model`]):
//! - a write acknowledged with `j: true` is there, or a later one of the same document;
//! - any other acknowledged write older than the commit interval likewise;
//! - nothing is there that nobody wrote, and no document is half of two versions;
//! - `validate` finds indexes and records agree; `count` and `collStats` are exact; a query by index
//!   counts what a scan counts;
//! - every index build, drop, rename and filling of a collection that was acknowledged ([`schema`]).
//!
//! A killed process loses what only it knew, not what the kernel has: this tests the order and the
//! acknowledgement of writes, not the disk's cache.
mod model;
mod schema;
mod verify;
mod worker;

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::Connection;
use crate::process::Server;
use crate::random::Random;
use crate::report;
use model::Model;
use nagi_bson::doc;
use schema::Schema;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_crash";
const COLLECTION: &str = "docs";
/// Writers run between these times before the kill.
const RUN_MS_MIN: u64 = 20;
const RUN_MS_SPREAD: u64 = 900;

#[derive(Default)]
struct Totals {
    acknowledged: u64,
    synced: u64,
    changes: u64,
    documents: usize,
    reopen_ms_max: u128,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let rounds: u64 = args.number("rounds", 200)?;
    let threads: u64 = args.number("threads", 4)?;
    let seed: u64 = args.number("seed", u64::from(std::process::id()))?;
    let dbpath =
        args.text("dbpath").ok_or_else(|| Problem::Usage("`--dbpath` is missing\n".into()))?;
    let (program, dbpath) = (args.nagi()?, Path::new(dbpath));
    let mut random = Random::new(seed);
    let mut models: Vec<Model> = (0..threads.clamp(1, 64)).map(Model::new).collect();
    let mut schema = Schema::default();
    let mut totals = Totals::default();
    let mut server = open(&program, dbpath, &mut totals)?;
    prepare(&server.address)?;
    for round in 1..=rounds {
        let run_time = Duration::from_millis(RUN_MS_MIN + random.below(RUN_MS_SPREAD));
        let killed_at =
            write_and_kill(server, (&mut models, &mut schema), &mut random, run_time, &mut totals)
                .map_err(|p| in_round(p, round, seed))?;
        server = open(&program, dbpath, &mut totals).map_err(|p| in_round(p, round, seed))?;
        totals.documents = verify::verify(&server.address, (&mut models, &mut schema), killed_at)
            .map_err(|p| in_round(p, round, seed))?;
        if round % 10 == 0 || round == rounds {
            report::say(&format!("crash: round {round}, {} documents\n", totals.documents));
        }
    }
    report::say(&format!(
        "crash: {rounds} kills, {} acknowledged writes ({} with j: true), {} index and collection \
         changes, nothing lost; reopened within {} ms\n",
        totals.acknowledged, totals.synced, totals.changes, totals.reopen_ms_max
    ));
    Ok(())
}

fn in_round(problem: Problem, round: u64, seed: u64) -> Problem {
    match problem {
        Problem::Failed(text) => Problem::Failed(format!("round {round}, seed {seed}: {text}")),
        usage @ Problem::Usage(_) => usage,
    }
}

fn open(program: &Path, dbpath: &Path, totals: &mut Totals) -> Outcome<Server> {
    let begin = Instant::now();
    let server = Server::nagi(program, dbpath)?;
    totals.reopen_ms_max = totals.reopen_ms_max.max(begin.elapsed().as_millis());
    Ok(server)
}

fn prepare(address: &str) -> Outcome {
    let mut connection = Connection::open(address)?;
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    connection.expect(
        doc! {
            "createIndexes": COLLECTION,
            "indexes": [
                { "key": { "a": 1 }, "name": "a_1" },
                { "key": { "t": 1 }, "name": "t_1" },
                { "key": { "a": 1, "v": (-1) }, "name": "a_1_v_-1" },
                { "key": { "w": 1, "v": 1 }, "name": "w_1_v_1", "unique": true },
                { "key": { "odd": 1 }, "name": "odd_1", "sparse": true }
            ],
            "$db": DATABASE
        }
        .as_doc(),
    )?;
    // What the rounds rely on must itself be on disk before the first kill.
    connection
        .expect(
            doc! { "insert": "marker", "documents": [{ "_id": 1 }], "writeConcern": { "j": true }, "$db": DATABASE }
                .as_doc(),
        )
        .map(drop)
}

/// Lets one writer a model write, and one client change indexes and collections, until the server
/// dies under them; when that was.
fn write_and_kill(
    server: Server,
    (models, schema): (&mut [Model], &mut Schema),
    random: &mut Random,
    run_time: Duration,
    totals: &mut Totals,
) -> Outcome<Instant> {
    let address = server.address.clone();
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for model in models {
            let connection = Connection::open(&address)?;
            let seed = random.next();
            writers.push(scope.spawn(move || worker::write(connection, model, seed)));
        }
        let (connection, seed) = (Connection::open(&address)?, random.next());
        let changer = scope.spawn(move || schema.change(connection, seed));
        thread::sleep(run_time);
        let killed_at = Instant::now();
        server.kill().map_err(failed("kill -9"))?;
        for writer in writers {
            let part = writer.join().map_err(|_| Problem::Failed("a writer panicked".into()))?;
            let part = part?;
            totals.acknowledged += part.acknowledged;
            totals.synced += part.synced;
        }
        totals.changes +=
            changer.join().map_err(|_| Problem::Failed("the changer panicked".into()))??;
        Ok(killed_at)
    })
}
