//! `nagi bench stall`: one writer, one counter, and every moment at which either had to wait.
//!
//! The experiment of 2012: documents of 1,024 random characters are inserted one by one, each
//! acknowledged, while another connection counts each second. Then the collection is dropped and all
//! is done again, on the space that the drop gave back.
//!
//! Before it the same client sends the same frames to a bare echo: what no server can be faster than.
use crate::args::{Args, Outcome, Problem, failed, self_program};
use crate::client::{Connection, address, complaint, frame, integer};
use crate::histogram::Histogram;
use crate::html::{Page, Plot};
use crate::process::{Scratch, Server, disk_bytes};
use crate::progress::Progress;
use crate::random::Random;
use crate::report;
use crate::resident::{Resident, peak};
use crate::timeline::Timeline;
use nagi_bson::{DocBuf, Value, doc};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

const DATABASE: &str = "nagi_stall";
const COLLECTION: &str = "test";
const CHARACTERS: usize = 1024;
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// What an operator notices: nothing may take longer.
const STALL_MS: u64 = 50;
/// Different documents that are inserted in turn.
const VARIANTS: u64 = 256;

struct Run {
    seconds: f64,
    inserts: Histogram,
    counts: Histogram,
    timeline: Timeline,
    /// Counts that were smaller than the one before.
    shrunk: u64,
    counted: i64,
    cpu_us: Option<u64>,
    resident_bytes: Option<u64>,
    disk_bytes: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: u64 = args.number("documents", 800_000)?;
    let runs: usize = args.number("runs", 2)?;
    if !(1..=1_000_000_000).contains(&documents) || !(1..=20).contains(&runs) {
        return Err(Problem::Usage("documents or runs out of range\n".to_owned()));
    }
    let scratch = Scratch::new(args)?;
    let (server, target) = match args.text("uri") {
        Some(uri) => (None, address(uri)?),
        None => {
            let server = Server::nagi(&args.nagi()?, &scratch.path.join("nagi"))?;
            let target = server.address.clone();
            (Some(server), target)
        }
    };
    let echo = echo_rate()?;
    report::say(&format!(
        "stall: {documents} documents of {CHARACTERS} characters; a bare echo of the frames answers {echo:.0}/s\n"
    ));
    let mut done = Vec::new();
    for number in 1..=runs {
        let data = server.as_ref().map(|_| scratch.path.join("nagi"));
        let mut run = once(&target, documents, server.as_ref(), number)?;
        run.disk_bytes = data.as_deref().map(disk_bytes);
        report::say(&line(number, &run, echo));
        done.push(run);
    }
    report::say(&report::columns(&table(&done, echo)));
    Connection::open(&target)?.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    if let Some(path) = args.text("html") {
        page(&done, echo, documents).write(path)?;
    }
    if let Some(path) = args.text("json") {
        fs::write(path, json(&done, echo)).map_err(failed(path))?;
    }
    check(&done, documents)
}

/// One filling of the collection, which is dropped before.
fn once(target: &str, documents: u64, server: Option<&Server>, number: usize) -> Outcome<Run> {
    let (mut writer, mut counter) = (Connection::open(target)?, Connection::open(target)?);
    writer.expect(doc! { "drop": COLLECTION, "$db": DATABASE }.as_doc()).or_else(missing)?;
    let done = AtomicBool::new(false);
    let resident = server.map(|server| Resident::watch(server.id()));
    let (begin, cpu) = (Instant::now(), server.map(Server::cpu_us));
    let (inserts, timeline, counts) = thread::scope(|scope| {
        let counting = scope.spawn(|| count(&mut counter, &done));
        let written = write(&mut writer, documents, begin, number);
        done.store(true, Ordering::Relaxed);
        let counts =
            counting.join().map_err(|_| Problem::Failed("the counter panicked".into()))??;
        written.map(|(inserts, timeline)| (inserts, timeline, counts))
    })?;
    Ok(Run {
        seconds: begin.elapsed().as_secs_f64(),
        inserts,
        counts: counts.0,
        shrunk: counts.1,
        timeline,
        counted: counted(&mut counter)?,
        cpu_us: cpu.zip(server).map(|(before, server)| server.cpu_us().saturating_sub(before)),
        resident_bytes: resident.map(|watch| peak(&watch.finish())),
        disk_bytes: None,
    })
}

/// Dropping what is not there is fine, on servers of any age.
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
        let sent = Instant::now();
        let reply = connection.call(frame).map_err(failed("inserting"))?;
        let took = sent.elapsed();
        latencies.record(took.as_nanos() as u64);
        timeline.record(sent, took);
        let reply = DocBuf::from_bytes(reply.get(21..).unwrap_or(&[]).to_vec());
        if let Some(text) = reply.map_or_else(|e| Some(e.to_string()), |r| complaint(r.as_doc())) {
            return Err(Problem::Failed(format!("inserting: {text}")));
        }
        progress.at(id);
    }
    Ok((latencies, timeline))
}

/// Counts each second until `done`; latencies, and how often the count shrank.
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
    // Every character from U+0000 to U+00FF alike, as the program of 2012 makes them.
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

/// Stands for the `_id` that is written into a built frame.
const ID_MARK: i64 = 0x4E41_4749_5354_414C;

fn id_at(frame: &[u8]) -> Outcome<usize> {
    let mark = ID_MARK.to_le_bytes();
    let at = frame.windows(8).position(|bytes| bytes == mark);
    at.ok_or_else(|| Problem::Failed("the frame has no _id".to_owned()))
}

/// Requests a second of the same frames against a bare echo, for three seconds.
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

const HEAD: [&str; 14] = [
    "run",
    "seconds",
    "inserts/s",
    "of echo",
    "cpu us",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "p99.99 us",
    "max ms",
    "stalls",
    "count max ms",
    "resident MB",
    "disk MB",
];

fn cells(number: usize, run: &Run, echo: f64) -> Vec<String> {
    let rate = run.inserts.count() as f64 / run.seconds;
    let us = |share: f64| format!("{:.0}", run.inserts.quantile(share) as f64 / 1e3);
    let per = |total: u64| format!("{:.1}", total as f64 / run.inserts.count().max(1) as f64);
    vec![
        number.to_string(),
        format!("{:.1}", run.seconds),
        format!("{rate:.0}"),
        format!("{:.0} %", rate / echo * 100.0),
        run.cpu_us.map_or("-".to_owned(), per),
        us(0.5),
        us(0.99),
        us(0.999),
        us(0.9999),
        format!("{:.1}", run.inserts.max() as f64 / 1e6),
        run.timeline.stall_count().to_string(),
        format!("{:.1}", run.counts.max() as f64 / 1e6),
        run.resident_bytes.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
        run.disk_bytes.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
    ]
}

fn line(number: usize, run: &Run, echo: f64) -> String {
    let pairs = HEAD.iter().zip(cells(number, run, echo));
    let mut text =
        pairs.map(|(name, cell)| format!("{name} {cell}")).collect::<Vec<_>>().join(", ");
    text.push('\n');
    for stall in run.timeline.stalls().iter().take(20) {
        let _ = writeln!(
            text,
            "  at {:.1} s an insert took {} ms",
            stall.at.as_secs_f64(),
            stall.took.as_millis()
        );
    }
    text
}

fn table(runs: &[Run], echo: f64) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(runs.iter().zip(1..).map(|(run, number)| cells(number, run, echo)));
    rows
}

fn page(runs: &[Run], echo: f64, documents: u64) -> Page {
    let mut page = Page::new("nagi bench stall");
    page.paragraph(&format!(
        "{documents} documents of {CHARACTERS} random characters, one by one, each acknowledged; count each second. \
         A stall is an operation over {STALL_MS} ms. Echo: {echo:.0} requests/s."
    ));
    page.table(&table(runs, echo));
    for (run, number) in runs.iter().zip(1..) {
        page.heading(&format!("Run {number}"));
        let points: Vec<_> = run.timeline.points().collect();
        page.plot(&Plot {
            title: "Worst insert in each tenth of a second",
            unit: "ms",
            points: points.iter().map(|p| (p.0, p.2)).collect(),
            limit: Some(STALL_MS as f64),
        });
        page.plot(&Plot {
            title: "Inserts a second",
            unit: "/s",
            points: points.iter().map(|p| (p.0, p.1)).collect(),
            limit: None,
        });
    }
    page
}

fn json(runs: &[Run], echo: f64) -> String {
    let mut out = format!("{{\"echo_per_second\": {echo:.1}, \"runs\": [\n");
    for (index, run) in runs.iter().enumerate() {
        let _ = writeln!(
            out,
            "  {{\"seconds\": {:.3}, \"inserts\": {}, \"p50_ns\": {}, \"p99_ns\": {}, \"p999_ns\": {}, \
             \"p9999_ns\": {}, \"max_ns\": {}, \"stalls\": {}, \"slowest_slot_of_median\": {:.3}, \
             \"count_max_ns\": {}, \"counts_shrunk\": {}, \"cpu_us\": {}, \"resident_bytes_max\": {}, \
             \"disk_bytes\": {}}}{}",
            run.seconds,
            run.inserts.count(),
            run.inserts.quantile(0.5),
            run.inserts.quantile(0.99),
            run.inserts.quantile(0.999),
            run.inserts.quantile(0.9999),
            run.inserts.max(),
            run.timeline.stall_count(),
            run.timeline.slowest_share().unwrap_or(0.0),
            run.counts.max(),
            run.shrunk,
            run.cpu_us.unwrap_or(0),
            run.resident_bytes.unwrap_or(0),
            run.disk_bytes.unwrap_or(0),
            if index + 1 < runs.len() { "," } else { "" },
        );
    }
    out.push_str("]}\n");
    out
}

/// What must be true whatever the machine: every document is there, no count went back.
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
