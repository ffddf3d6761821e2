//! `nagi-bench streams`: how long after its commit an event reaches a change stream, with many streams open.
//!
//! Each stream has a connection and a thread. Streams watch one collection each (`own`), so that an insert has one
//! reader, or all the same (`same`), so that every insert has all of them. All watch the same also with `id` and
//! `field`, and each wants one document: by `documentKey._id`, or by a field of `fullDocument`. So every insert has one
//! reader that must be found among all. One client inserts at a steady rate and writes the time into each document; the
//! lag is measured when a stream's reply was read. Before the load the CPU time of the server is measured while nothing
//! happens.
use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, complaint, integer};
use crate::histogram::Histogram;
use crate::process::{Scratch, Server};
use crate::report;
use crate::resident::resident_bytes;
use nagi_bson::{Doc, DocBuf, Value, doc};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_streams";
/// Longer than any getMore waits.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// How long a stream waits for events in one request.
const AWAIT_MS: i32 = 1000;
/// The streams have so long for the events of the last inserts.
const DRAIN_MAX: Duration = Duration::from_secs(20);
const STACK_BYTES: usize = 256 << 10;

/// The figures of one number of streams.
struct Found {
    streams: u64,
    watch: Watch,
    idle: f64,
    memory_mb: u64,
    lag: Histogram,
    insert: Histogram,
    cpu_us: u64,
    events: u64,
}

/// What the streams watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Own,
    Same,
    Id,
    Field,
}

const WATCHES: [(&str, Watch); 4] =
    [("own", Watch::Own), ("same", Watch::Same), ("id", Watch::Id), ("field", Watch::Field)];

impl Watch {
    fn name(self) -> &'static str {
        WATCHES.iter().find(|(_, watch)| *watch == self).map_or("", |(name, _)| name)
    }

    fn collection(self, number: u64) -> String {
        if self == Watch::Own { format!("c{number}") } else { "c".to_owned() }
    }

    /// The field of an event by which a stream finds its document.
    fn path(self) -> Option<&'static str> {
        match self {
            Watch::Own | Watch::Same => None,
            Watch::Id => Some("documentKey._id"),
            Watch::Field => Some("fullDocument.number"),
        }
    }

    /// The number of events of all streams after so many inserts.
    fn events(self, streams: u64, inserts: u64) -> u64 {
        match self {
            Watch::Own => inserts,
            Watch::Same => inserts * streams,
            // Document n is wanted by stream n.
            Watch::Id | Watch::Field => inserts.min(streams),
        }
    }
}

/// What the threads of the streams share.
struct Shared {
    address: String,
    begin: Instant,
    opened: Barrier,
    stop: AtomicBool,
    events: AtomicU64,
    lag: Mutex<Histogram>,
    problem: Mutex<Option<Problem>>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let program = args.nagi()?;
    let counts = args.numbers_in("streams", "1,100,1000", 1..=10_000)?;
    let inserts: u64 = args.number_in("inserts", 2000, 1..=10_000_000)?;
    let rate: u64 = args.number_in("rate", 200, 1..=100_000)?;
    let mut all = Vec::new();
    for kind in args.words("watch", &WATCHES.map(|(name, _)| name))? {
        let watch =
            WATCHES.iter().find(|(name, _)| *name == kind).map_or(Watch::Own, |found| found.1);
        for count in &counts {
            let scratch = Scratch::new(args)?;
            let data = scratch.path.join("data");
            let server = Server::nagi_with(&program, &data, &["--replSet", "rs0", "--initiate"])?;
            all.push(measure(&server, *count, watch, (inserts, rate))?);
        }
    }
    report::say(&report::columns(&table(&all)));
    Ok(())
}

fn measure(server: &Server, streams: u64, watch: Watch, load: (u64, u64)) -> Outcome<Found> {
    let mut writer = Connection::open(&server.address)?;
    await_primary(&mut writer)?;
    let collections = if watch == Watch::Own { streams } else { 1 };
    // Of an earlier measurement in the same directory.
    writer.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    for number in 0..collections {
        let name = watch.collection(number);
        writer.expect(doc! { "create": (name.as_str()), "$db": DATABASE }.as_doc())?;
    }
    let shared = Shared {
        address: server.address.clone(),
        begin: Instant::now(),
        opened: Barrier::new(streams as usize + 1),
        stop: AtomicBool::new(false),
        events: AtomicU64::new(0),
        lag: Mutex::new(Histogram::new()),
        problem: Mutex::new(None),
    };
    let found = thread::scope(|scope| -> Outcome<Found> {
        for number in 0..streams {
            let shared = &shared;
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let stream = move || {
                if let Err(problem) = follow(shared, watch, number) {
                    shared.stop.store(true, Ordering::Relaxed);
                    lock(&shared.problem).get_or_insert(problem);
                }
            };
            builder.spawn_scoped(scope, stream).map_err(failed("starting a thread"))?;
        }
        shared.opened.wait();
        let idle = idle_cpu(server);
        let memory_mb = resident_bytes(server.id()).unwrap_or(0) >> 20;
        let written = write(&mut writer, server, &shared, (collections, watch), load);
        // Otherwise the streams would wait for more.
        let (insert, cpu_us) =
            written.inspect_err(|_| shared.stop.store(true, Ordering::Relaxed))?;
        let expected = watch.events(streams, load.0);
        let until = Instant::now() + DRAIN_MAX;
        let missing = || shared.events.load(Ordering::Relaxed) < expected;
        while missing() && Instant::now() < until && !shared.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        shared.stop.store(true, Ordering::Relaxed);
        let events = shared.events.load(Ordering::Relaxed);
        let lag = Histogram::new();
        Ok(Found { streams, watch, idle, memory_mb, lag, insert, cpu_us, events })
    });
    if let Some(problem) = lock(&shared.problem).take() {
        return Err(problem);
    }
    let mut found = found?;
    let expected = watch.events(streams, load.0);
    if found.events != expected {
        let text = format!("{} of {expected} events came", found.events);
        return Err(Problem::Failed(text));
    }
    found.lag.merge(&lock(&shared.lag));
    Ok(found)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits until the new replica set accepts writes.
fn await_primary(connection: &mut Connection) -> Outcome {
    let until = Instant::now() + DRAIN_MAX;
    while Instant::now() < until {
        let hello = connection.expect(doc! { "hello": 1, "$db": "admin" }.as_doc())?;
        if hello.get("isWritablePrimary") == Value::Bool(true) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(Problem::Failed("the replica set has no primary".to_owned()))
}

/// The server's CPU time in milliseconds for each second in which nothing happens.
fn idle_cpu(server: &Server) -> f64 {
    let (begin, before) = (Instant::now(), server.cpu_us());
    thread::sleep(Duration::from_secs(3));
    (server.cpu_us() - before) as f64 / 1e3 / begin.elapsed().as_secs_f64()
}

/// Inserts at the rate. Returns the times of the inserts, and the server's CPU time for each.
fn write(
    writer: &mut Connection,
    server: &Server,
    shared: &Shared,
    (collections, watch): (u64, Watch),
    (inserts, rate): (u64, u64),
) -> Outcome<(Histogram, u64)> {
    let (mut insert, before, begin) = (Histogram::new(), server.cpu_us(), Instant::now());
    for number in 0..inserts {
        let due = begin + Duration::from_nanos(number * 1_000_000_000 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let name = watch.collection(number % collections);
        let sent = shared.begin.elapsed().as_nanos() as i64;
        let document = doc! { "_id": (number as i64), "number": (number as i64), "sent": sent };
        let started = Instant::now();
        writer.expect(
            DocBuf::build(|out| {
                out.put("insert", name.as_str());
                out.array("documents", |list| list.push_doc(document.as_doc()));
                out.doc("writeConcern", |out| out.put("w", 1));
                out.put("$db", DATABASE);
            })
            .as_doc(),
        )?;
        insert.record(started.elapsed().as_nanos() as u64);
    }
    Ok((insert, (server.cpu_us() - before) / inserts))
}

/// Reads a stream until the end of the measurement.
fn follow(shared: &Shared, watch: Watch, number: u64) -> Outcome {
    let name = &*watch.collection(number);
    let opened = Connection::open(&shared.address).and_then(|mut connection| {
        connection.be_patient(SILENCE_MAX)?;
        let open = DocBuf::build(|out| {
            out.put("aggregate", name);
            out.array("pipeline", |out| {
                out.doc(|out| out.doc("$changeStream", |_| ()));
                if let Some(path) = watch.path() {
                    out.doc(|out| out.doc("$match", |out| out.put(path, number as i64)));
                }
            });
            out.doc("cursor", |out| out.put("batchSize", 0));
            out.put("$db", DATABASE);
        });
        let reply = connection.expect(open.as_doc())?;
        Ok((connection, reply))
    });
    // The others wait for this one also if it has failed.
    shared.opened.wait();
    let (mut connection, reply) = opened?;
    let id = reply.get("cursor").as_doc().and_then(|cursor| integer(cursor.get("id")));
    let more = doc! {
        "getMore": (id.unwrap_or(0)), "collection": name, "maxTimeMS": AWAIT_MS, "$db": DATABASE
    };
    let mut lag = Histogram::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let reply = connection.command(more.as_doc()).map_err(failed("getMore"))?;
        let now = shared.begin.elapsed().as_nanos() as u64;
        if let Some(text) = complaint(reply.as_doc()) {
            return Err(Problem::Failed(text));
        }
        let batch = reply.get("cursor").as_doc().map(|cursor| cursor.get("nextBatch"));
        for event in batch.and_then(|batch| batch.as_array()).into_iter().flat_map(|a| a.iter()) {
            let document = event.as_doc().map_or(Doc::EMPTY, |event| {
                event.get("fullDocument").as_doc().unwrap_or(Doc::EMPTY)
            });
            let sent = integer(document.get("sent")).unwrap_or(0);
            lag.record(now.saturating_sub(sent as u64));
            shared.events.fetch_add(1, Ordering::Relaxed);
        }
    }
    lock(&shared.lag).merge(&lag);
    Ok(())
}

fn table(all: &[Found]) -> Vec<Vec<String>> {
    let head = [
        "streams",
        "watch",
        "idle ms/s",
        "MB",
        "lag p50",
        "p99",
        "p99.9",
        "max ms",
        "insert p50",
        "cpu us/insert",
        "events",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
    for found in all {
        rows.push(vec![
            found.streams.to_string(),
            found.watch.name().to_owned(),
            format!("{:.1}", found.idle),
            found.memory_mb.to_string(),
            ms(found.lag.quantile(0.5)),
            ms(found.lag.quantile(0.99)),
            ms(found.lag.quantile(0.999)),
            ms(found.lag.max()),
            ms(found.insert.quantile(0.5)),
            found.cpu_us.to_string(),
            found.events.to_string(),
        ]);
    }
    rows
}
