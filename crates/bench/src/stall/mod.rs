//! `nagi-bench stall`: runs one writer and one counting client, and records every moment at which either had to
//! wait.
//!
//! This repeats an experiment of 2012: documents of 1,024 random characters are inserted one by one, each
//! acknowledged, while another connection counts them every second. Then the collection is dropped and the run
//! is repeated, on the space that the drop released.
//!
//! Two controls are reported next to the stalls: the pauses of the machine itself (`pauses`), and the speed of
//! the same client. Before the run the client sends the same frames to a bare echo, which is an upper bound for
//! any server. It also sends them in turn to the server and to its storage engine behind a bare socket
//! (`pairs`); the difference is the cost of the server. With `--beside`, a third connection updates, deletes, indexes
//! or reads a million other documents meanwhile.
mod beside;
mod pairs;
mod report;

use crate::args::{Args, Outcome, Problem, failed, self_program};
use crate::client::{Connection, address, frame, integer};
use crate::histogram::Histogram;
use crate::inserts::insert_timed;
use crate::pauses::{Pause, Watch};
use crate::process::{Scratch, Server, settled_disk_bytes};
use crate::progress::Progress;
use crate::random::Random;
use crate::report as text;
use crate::resident::{Resident, peak};
use crate::timeline::Timeline;
use beside::Beside;
use nagi_bson::{DocBuf, Value, doc};
use pairs::Pairs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_stall";
const COLLECTION: &str = "test";
const CHARACTERS: usize = 1024;
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// No operation may take longer: an operator notices longer ones.
const STALL_MS: u64 = 50;
/// Number of different documents that are inserted in turn.
const VARIANTS: u64 = 256;

struct Run {
    seconds: f64,
    inserts: Histogram,
    counts: Histogram,
    timeline: Timeline,
    /// Number of counts that were smaller than the count before.
    shrunk: u64,
    /// Pauses of the machine; none if they could not be watched.
    pauses: Option<Vec<Pause>>,
    counted: i64,
    cpu_us: Option<u64>,
    resident_bytes: Option<u64>,
    disk_bytes: Option<u64>,
}

/// Inserts per second of the same client without a server.
struct Bare {
    /// Rate against a bare echo of the frames.
    echo: f64,
    /// Comparison with the storage engine behind a bare socket; none if the server is external.
    pairs: Option<Pairs>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: u64 = args.number_in("documents", 800_000, 1..=1_000_000_000)?;
    let runs: usize = args.number_in("runs", 2, 1..=20)?;
    let beside = Beside::parse(args)?;
    let scratch = Scratch::new(args)?;
    let (server, target) = match args.text("uri") {
        Some(uri) => (None, address(uri)?),
        None => {
            let server = {
                let more: Vec<&str> = args.all("server-option").collect();
                Server::nagi_with(&args.nagi()?, &scratch.path.join("nagi"), &more)?
            };
            let target = server.address.clone();
            (Some(server), target)
        }
    };
    let pairs = match server {
        Some(_) => Some(pairs::measure(&scratch, &target)?),
        None => None,
    };
    let bare = Bare { echo: echo_rate()?, pairs };
    text::say(&bare.line(documents));
    if let Some(beside) = &beside {
        beside.fill(&target)?;
    }
    let mut done = Vec::new();
    for number in 1..=runs {
        let data = server.as_ref().map(|_| scratch.path.join("nagi"));
        let mut run = once(&target, documents, (server.as_ref(), beside), number)?;
        run.disk_bytes = data.as_deref().map(settled_disk_bytes);
        text::say(&report::line(number, &run, &bare));
        done.push(run);
    }
    text::say(&text::columns(&report::table(&done, &bare)));
    Connection::open(&target)?.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    text::write(args, || report::page(&done, &bare, documents), || report::json(&done, &bare))?;
    check(&done, documents)
}

/// Fills the collection once; it is dropped before.
fn once(
    target: &str,
    documents: u64,
    (server, beside): (Option<&Server>, Option<Beside>),
    number: usize,
) -> Outcome<Run> {
    let (mut writer, mut counter) = (Connection::open(target)?, Connection::open(target)?);
    writer.expect(doc! { "drop": COLLECTION, "$db": DATABASE }.as_doc()).or_else(missing)?;
    let done = AtomicBool::new(false);
    let resident = server.map(|server| Resident::watch(server.id()));
    let (begin, cpu) = (Instant::now(), server.map(Server::cpu_us));
    let pauses = Watch::start(begin);
    let (inserts, timeline, counts) = thread::scope(|scope| {
        let counting = scope.spawn(|| count(&mut counter, &done));
        let done_by = &done;
        let working =
            beside.map(|beside| scope.spawn(move || (beside, beside.work(target, done_by))));
        let written = write(&mut writer, documents, begin, number);
        done.store(true, Ordering::Relaxed);
        let counts =
            counting.join().map_err(|_| Problem::Failed("the counter panicked".into()))??;
        if let Some(working) = working {
            let panicked = |_| Problem::Failed("the work beside panicked".into());
            let (beside, turns) = working.join().map_err(panicked)?;
            text::say(&format!("beside: {} {} times\n", beside.name(), turns?));
        }
        written.map(|(inserts, timeline)| (inserts, timeline, counts))
    })?;
    Ok(Run {
        seconds: begin.elapsed().as_secs_f64(),
        inserts,
        counts: counts.0,
        shrunk: counts.1,
        pauses: pauses.finish(),
        timeline,
        counted: counted(&mut counter)?,
        cpu_us: cpu.zip(server).map(|(before, server)| server.cpu_us().saturating_sub(before)),
        resident_bytes: resident.map(|watch| peak(&watch.finish())),
        disk_bytes: None,
    })
}

/// Treats the drop of a missing collection as success, on servers of any age.
fn missing(problem: Problem) -> Outcome<DocBuf> {
    match problem {
        Problem::Failed(text) if text.contains("ns not found") => Ok(doc! {}),
        other => Err(other),
    }
}

fn write(
    connection: &mut Connection,
    documents: u64,
    begin: Instant,
    number: usize,
) -> Outcome<(Histogram, Timeline)> {
    let mut frames: Vec<Vec<u8>> = (0..VARIANTS).map(|n| frame(insert(n).as_doc())).collect();
    let at = id_at(&frames[0])?;
    let mut latencies = Histogram::new();
    let mut timeline = Timeline::new(begin, Duration::from_millis(STALL_MS));
    let mut progress = Progress::new(&format!("run {number}"), documents);
    for id in 0..documents {
        let frame = &mut frames[(id % VARIANTS) as usize];
        frame[at..at + 8].copy_from_slice(&(id + 1).to_le_bytes());
        insert_timed(connection, frame, &mut latencies, &mut timeline)?;
        progress.at(id);
    }
    Ok((latencies, timeline))
}

/// Counts every second until `done`. Returns the latencies, and how often the count shrank.
fn count(connection: &mut Connection, done: &AtomicBool) -> Outcome<(Histogram, u64)> {
    let (mut latencies, mut shrunk, mut last) = (Histogram::new(), 0, 0);
    while !done.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let count = counted(connection)?;
        latencies.record(begin.elapsed().as_nanos() as u64);
        shrunk += u64::from(count < last);
        last = count;
        while begin.elapsed() < COUNT_EVERY && !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok((latencies, shrunk))
}

fn counted(connection: &mut Connection) -> Outcome<i64> {
    let reply = connection.expect(doc! { "count": COLLECTION, "$db": DATABASE }.as_doc())?;
    integer(reply.get("n")).ok_or_else(|| Problem::Failed("count without n".to_owned()))
}

fn insert(variant: u64) -> DocBuf {
    let mut random = Random::new(variant + 1);
    // Characters are uniform from U+0000 to U+00FF, as in the program of 2012.
    let text: String = (0..CHARACTERS).map(|_| char::from(random.below(256) as u8)).collect();
    DocBuf::build(|w| {
        w.put("insert", COLLECTION);
        w.array("documents", |list| {
            list.doc(|w| {
                w.put("_id", Value::Int64(ID_MARK));
                w.put("data", text.as_str());
            });
        });
        w.put("$db", DATABASE);
    })
}

/// Placeholder for the `_id`, which is written into the built frame.
const ID_MARK: i64 = 0x4E41_4749_5354_414C;

fn id_at(frame: &[u8]) -> Outcome<usize> {
    let mark = ID_MARK.to_le_bytes();
    let at = frame.windows(8).position(|bytes| bytes == mark);
    at.ok_or_else(|| Problem::Failed("the frame has no _id".to_owned()))
}

/// Requests per second with the same frames against a bare echo, measured for three seconds.
fn echo_rate() -> Outcome<f64> {
    let frame = frame(insert(0).as_doc());
    let server = Server::echo(&self_program()?, "epoll", 45)?;
    let mut connection = Connection::open(&server.address)?;
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < Duration::from_secs(3) {
        connection.call(&frame).map_err(failed("echo"))?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// Checks conditions that hold on any machine: every document is present, and no count decreased.
fn check(runs: &[Run], documents: u64) -> Outcome {
    for (run, number) in runs.iter().zip(1..) {
        if u64::try_from(run.counted) != Ok(documents) || run.shrunk > 0 {
            return Err(Problem::Failed(format!(
                "run {number}: {} of {documents} documents are counted, {} counts went back",
                run.counted, run.shrunk
            )));
        }
    }
    Ok(())
}
