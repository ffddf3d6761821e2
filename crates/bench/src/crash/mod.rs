//! `nagi-bench crash`: runs `kill -9` at random moments under concurrent writes, and verifies the data
//! afterwards.
//!
//!   round:   start -> verify the data of the last round -> writers run -> kill -9 -> start -> verify ...
//!
//! After each restart the following is verified, for each document by its own history ([`model`]):
//! - a write acknowledged with `j: true` is present, or a later write of the same document is;
//! - the same holds for any other acknowledged write older than the commit interval;
//! - no document exists that was not written, and no document mixes two versions;
//! - `validate` finds that indexes and records agree, `count` and `collStats` are exact, and a query by index
//!   counts the same documents as a scan;
//! - every acknowledged index build, drop and rename, and every acknowledged insert into a collection of the
//!   schema client, is present ([`schema`]);
//! - with `--encrypted true` the data directory is encrypted, and every acknowledged generation of keys is present
//!   ([`generations`]).
//!
//! A killed process loses only its own memory; data handed to the kernel survives. So this tests the order and
//! the acknowledgement of writes, not the disk's cache. `--power-cut N` also tests the cache ([`power`]): in N
//! rounds on each of the named file systems, the disk loses everything that it was not told to flush.
mod generations;
mod model;
mod power;
mod schema;
mod verify;
mod worker;
mod world;

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, complaint};
use crate::master_key;
use crate::process::Server;
use crate::random::Random;
use crate::report;
use model::{COMMIT_INTERVAL, FLUSH_SLACK};
use nagi_bson::doc;
use power::Machine;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use world::World;

const DATABASE: &str = "nagi_crash";
const COLLECTION: &str = "docs";
/// Writers run for a random time in this range before the kill.
const RUN_MS_MIN: u64 = 20;
const RUN_MS_SPREAD: u64 = 900;
/// A duration longer than any round.
const LONG: Duration = Duration::from_secs(600);
/// Exit code of a server that cannot write its write-ahead log.
const ENDED_BY_DISK: i32 = 14;
/// Size of the disk whose power is cut.
const DISK_MEGABYTES: u64 = 768;

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
    let threads: u64 = args.number_in("threads", 4, 1..=64)?;
    let seed: u64 = args.number("seed", u64::from(std::process::id()))?;
    let dbpath =
        args.text("dbpath").ok_or_else(|| Problem::Usage("`--dbpath` is missing\n".into()))?;
    let (program, dbpath) = (args.nagi()?, Path::new(dbpath));
    let cuts: u64 = args.number("power-cut", 0)?;
    let encrypted = args.flag("encrypted")?;
    let key = if encrypted { master_key::options(&dbpath.with_extension("key"))? } else { vec![] };
    let mut options: Vec<&str> = args.all("server-option").collect();
    options.extend(key.iter().map(String::as_str));
    let mut random = Random::new(seed);
    if cuts > 0 {
        let named = args.words("fs", &power::FILE_SYSTEMS)?;
        for (at, file_system) in named.iter().copied().enumerate() {
            let machine =
                Machine::new(&dbpath.join(file_system), file_system, DISK_MEGABYTES << 20)?;
            let share = cuts / named.len() as u64 + u64::from(at == 0);
            let setting =
                Setting { program: &program, options: &options, threads, seed, encrypted };
            power_cuts(&setting, machine, file_system, share, &mut random)?;
        }
        return Ok(());
    }
    let mut world = World::new(threads, encrypted);
    let mut totals = Totals::default();
    let mut server = open(&program, dbpath, &options, &mut totals)?;
    prepare(&server.address)?;
    for round in 1..=rounds {
        let run_time = Duration::from_millis(RUN_MS_MIN + random.below(RUN_MS_SPREAD));
        let named = |p: Problem| in_round(p, round, seed);
        let killed_at =
            write_and_kill(server, &mut world, &mut random, run_time, None, &mut totals)
                .map_err(named)?;
        server = open(&program, dbpath, &options, &mut totals).map_err(named)?;
        totals.documents = world.verify(&server.address, killed_at).map_err(named)?;
        if round % 10 == 0 || round == rounds {
            report::say(&format!("crash: round {round}, {} documents\n", totals.documents));
        }
    }
    report::say(&format!(
        "crash: {rounds} kills, {} acknowledged writes ({} with j: true), {} index and collection \
         changes{}, nothing lost; reopened within {} ms\n",
        totals.acknowledged,
        totals.synced,
        totals.changes,
        world.generations(),
        totals.reopen_ms_max
    ));
    Ok(())
}

fn in_round(problem: Problem, round: u64, seed: u64) -> Problem {
    match problem {
        Problem::Failed(text) => Problem::Failed(format!("round {round}, seed {seed}: {text}")),
        usage @ Problem::Usage(_) => usage,
    }
}

/// The parameters that are the same in all rounds.
struct Setting<'a> {
    program: &'a Path,
    options: &'a [&'a str],
    threads: u64,
    seed: u64,
    encrypted: bool,
}

/// Runs the rounds with power cuts on one file system.
fn power_cuts(
    setting: &Setting<'_>,
    mut machine: Machine,
    file_system: &str,
    rounds: u64,
    random: &mut Random,
) -> Outcome {
    let mut world = World::new(setting.threads.clamp(1, 64), setting.encrypted);
    let mut totals = Totals::default();
    let data: PathBuf = machine.data.clone();
    let mut server = open(setting.program, &data, setting.options, &mut totals)?;
    prepare(&server.address)?;
    for round in 1..=rounds {
        let named = |p: Problem| in_round(p, round, setting.seed);
        let run_time = Duration::from_millis(RUN_MS_MIN + random.below(RUN_MS_SPREAD * 2));
        let cut_at =
            write_and_kill(server, &mut world, random, run_time, Some(&mut machine), &mut totals);
        let certain_at = cut_at.map_err(named)?;
        machine.restart().map_err(named)?;
        server = open(setting.program, &data, setting.options, &mut totals).map_err(named)?;
        totals.documents = world.verify(&server.address, certain_at).map_err(named)?;
        if round % 10 == 0 || round == rounds {
            let text =
                format!("crash: {file_system}, cut {round}, {} documents\n", totals.documents);
            report::say(&text);
        }
    }
    report::say(&format!(
        "crash: {file_system}: {rounds} power cuts ({} took writes that were not flushed, {} of these \
         some of them: torn or reordered; {} sectors, {} flushes), {} acknowledged writes ({} with j: \
         true), {} index and collection changes{}, nothing lost; reopened within {} ms\n",
        machine.cuts_with_loss,
        machine.sectors_torn_cuts,
        machine.sectors_lost,
        machine.flush_count(),
        totals.acknowledged,
        totals.synced,
        totals.changes,
        world.generations(),
        totals.reopen_ms_max
    ));
    dead_disk(server, &mut machine, random)?;
    report::say(&format!(
        "crash: {file_system}: with a disk that answers every request with an error no write was \
         acknowledged, and the server ended with exit code {ENDED_BY_DISK}\n"
    ));
    Ok(())
}

/// Simulates a disk that fails while the server runs: the server must acknowledge no write, and exit.
fn dead_disk(server: Server, machine: &mut Machine, random: &mut Random) -> Outcome {
    let mut connection = Connection::open(&server.address)?;
    machine.cut(random)?;
    let write = doc! {
        "insert": "marker", "documents": [{ "a": 1 }], "writeConcern": { "j": true }, "$db": DATABASE
    };
    while let Ok(reply) = connection.command(write.as_doc()) {
        if complaint(reply.as_doc()).is_none() {
            return Err(Problem::Failed("a dead disk's write was acknowledged".into()));
        }
    }
    match server.ended_within(Duration::from_secs(20)) {
        Some(ENDED_BY_DISK) => Ok(()),
        other => Err(Problem::Failed(format!("with a dead disk the server ended with {other:?}"))),
    }
}

fn open(program: &Path, dbpath: &Path, options: &[&str], totals: &mut Totals) -> Outcome<Server> {
    let begin = Instant::now();
    let server = Server::nagi_with(program, dbpath, options)?;
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
    // The state that the rounds rely on must be on disk before the first kill.
    connection
        .expect(
            doc! { "insert": "marker", "documents": [{ "_id": 1 }], "writeConcern": { "j": true }, "$db": DATABASE }
                .as_doc(),
        )
        .map(drop)
}

/// Runs one writer per model, one client that changes indexes and collections, and with encryption one that makes keys,
/// until the server is killed while they work. Returns the time before which acknowledged writes must be durable.
fn write_and_kill(
    server: Server,
    world: &mut World,
    random: &mut Random,
    run_time: Duration,
    machine: Option<&mut Machine>,
    totals: &mut Totals,
) -> Outcome<Instant> {
    let address = server.address.clone();
    let over = &AtomicBool::new(false);
    let mut certain_at = None;
    let World { models, schema, generations } = world;
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for model in models {
            let connection = Connection::open(&address)?;
            let seed = random.next();
            writers.push(scope.spawn(move || worker::write(connection, model, seed, over)));
        }
        let (connection, seed) = (Connection::open(&address)?, random.next());
        let changer = scope.spawn(move || schema.change(connection, seed, over));
        let mut rotator = None;
        if let Some(generations) = generations {
            let (connection, seed) = (Connection::open(&address)?, random.next());
            rotator = Some(scope.spawn(move || generations.rotate(connection, seed, over)));
        }
        thread::sleep(run_time);
        over.store(true, Ordering::SeqCst);
        let mut killed_at = Instant::now();
        let powered = machine.is_some();
        if let Some(machine) = machine {
            killed_at = machine.cut(random)?;
            // For a short time the server runs on a failed disk: it must not acknowledge any write.
            thread::sleep(Duration::from_millis(random.below(200)));
        }
        server.kill().map_err(failed("kill -9"))?;
        for writer in writers {
            let part = writer.join().map_err(|_| Problem::Failed("a writer panicked".into()))?;
            let part = part?;
            totals.acknowledged += part.acknowledged;
            totals.synced += part.synced;
            certain_at = certain_at.max(part.certain_at);
        }
        totals.changes +=
            changer.join().map_err(|_| Problem::Failed("the changer panicked".into()))??;
        if let Some(rotator) = rotator {
            rotator.join().map_err(|_| Problem::Failed("the rotator panicked".into()))??;
        }
        // The duration of a sync on a disk behind FUSE and a loop device is unknown. Here only a later
        // acknowledged `j: true` proves that a write is durable. `settle` of the model subtracts its own slack.
        match (powered, certain_at) {
            (false, _) => Ok(killed_at),
            (true, Some(at)) => Ok(at + COMMIT_INTERVAL + FLUSH_SLACK),
            (true, None) => Ok(killed_at.checked_sub(LONG).unwrap_or(killed_at)),
        }
    })
}
