//! `nagi-bench mixed`: runs reads and updates in equal parts for a long time while compaction continues.
//!
//! This is YCSB's workload A: documents are chosen by Zipf's law, and half of the operations set one field.
//! Every update rewrites its document, so after a minute the engine merges files continuously. The result is
//! not the rate but its evenness: no window of a tenth of a second may fall below half of the median window,
//! and no operation may take longer than an operator notices.
//!
//! Two controls are reported next to it: the pauses of the machine, and the evenness of a bare echo on this
//! machine with the same clients and frames. The first two minutes, when the cache is empty and the data of the
//! load is being merged, have a column of their own.
use crate::args::{Args, Outcome, Problem, failed, self_program};
use crate::client::{Connection, address};
use crate::histogram::Histogram;
use crate::html::{Page, Plot};
use crate::load::Requests as _;
use crate::pauses::{Others, Pause, Watch, explains};
use crate::process::{Scratch, Server, disk_bytes};
use crate::random::{Random, Zipf};
use crate::report;
use crate::resident::{Resident, peak};
use crate::timeline::Timeline;
use crate::ycsb::{Reads, Updates, fill};
use nagi_bson::json::JsonWriter;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STALL_MS: u64 = 50;
/// A window with a rate below this share of the median window is a gap.
const GAP: f64 = 0.5;
/// Length of the echo's frames: that of a document.
const ECHO_BYTES: usize = 1300;
/// Maximum duration of the run against the echo.
const CONTROL_MAX: Duration = Duration::from_secs(120);
/// A window in which other processes used this share of the machine says little about the server.
const TAKEN: f64 = 0.25;
const WINDOW: Duration = Duration::from_millis(100);

struct Client {
    reads: Histogram,
    updates: Histogram,
    timeline: Timeline,
}

struct Run {
    began: SystemTime,
    all: Client,
    seconds: f64,
    pauses: Option<Vec<Pause>>,
    /// For each window, the share of the machine that other processes used.
    others: Vec<f64>,
    resident_bytes: Option<u64>,
    disk_bytes: Option<u64>,
    cpu_us: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: u64 = args.number_in("documents", 1_000_000, 1..=1_000_000_000)?;
    let seconds: f64 = args.number_in("seconds", 600.0, 1.0..=86_400.0)?;
    let threads: usize = args.number_in("threads", 16, 1..=1024)?;
    let warming: f64 = args.number_in("warm-seconds", 120.0, 0.0..=86_400.0)?;
    let scratch = Scratch::new(args)?;
    let dir = scratch.path.join("nagi");
    let (server, target) = match args.text("uri") {
        Some(uri) => (None, address(uri)?),
        None => {
            let more: Vec<&str> = args.all("server-option").collect();
            let server = Server::nagi_with(&args.nagi()?, &dir, &more)?;
            let target = server.address.clone();
            (Some(server), target)
        }
    };
    fill(&target, 0..documents)?;
    let time = Duration::from_secs_f64(seconds);
    let work = Work { documents, threads, time, checked: true };
    let warmed = (warming > 0.0)
        .then(|| {
            let time = Duration::from_secs_f64(warming);
            load(&target, server.as_ref(), &Work { time, ..work })
        })
        .transpose()?;
    let mut done = load(&target, server.as_ref(), &work)?;
    done.disk_bytes = server.as_ref().map(|_| disk_bytes(&dir));
    drop(server);
    let echo = Server::echo(&self_program()?, "threads", ECHO_BYTES)?;
    let time = time.min(CONTROL_MAX);
    let control = load(&echo.address, Some(&echo), &Work { time, checked: false, ..work })?;
    drop(echo);
    let rows = columns(&done, &control, warmed.as_ref());
    report::say(&format!(
        "mixed: {documents} documents of 1 KB, {threads} connections, {seconds:.0} s\n{}",
        report::columns(&rows)
    ));
    report::write(args, || page(&done, &rows), || json(&done, &rows))?;
    Ok(())
}

/// The operations of the clients.
struct Work {
    documents: u64,
    threads: usize,
    time: Duration,
    /// True if replies are checked. The replies of an echo carry no information.
    checked: bool,
}

fn load(target: &str, server: Option<&Server>, work: &Work) -> Outcome<Run> {
    let Work { documents, threads, .. } = *work;
    let zipf = Zipf::new(documents);
    let connections =
        (0..threads).map(|_| Connection::open(target)).collect::<Outcome<Vec<_>>>()?;
    let barrier = Barrier::new(threads);
    let (began, begin) = (SystemTime::now(), Instant::now());
    let (pauses, cpu) = (Watch::start(begin), server.map(Server::cpu_us));
    let others = Others::watch(begin, server.map(Server::id));
    let resident = server.map(|server| Resident::watch(server.id()));
    let clients = thread::scope(|scope| {
        let workers: Vec<_> = (1_u64..)
            .zip(connections)
            .map(|(number, connection)| {
                let (zipf, barrier) = (&zipf, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    client(connection, number, zipf, work, begin)
                })
            })
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Outcome<Client>>| {
            worker.join().map_err(|_| Problem::Failed("a client panicked".to_owned()))?
        };
        workers.into_iter().map(join).collect::<Outcome<Vec<_>>>()
    })?;
    let mut all = Client::new(begin);
    for client in &clients {
        all.reads.merge(&client.reads);
        all.updates.merge(&client.updates);
        all.timeline.merge(&client.timeline);
    }
    Ok(Run {
        began,
        all,
        seconds: begin.elapsed().as_secs_f64(),
        pauses: pauses.finish(),
        others: others.finish(),
        resident_bytes: resident.map(|watch| peak(&watch.finish())),
        disk_bytes: None,
        cpu_us: cpu.zip(server).map(|(before, server)| server.cpu_us().saturating_sub(before)),
    })
}

impl Client {
    fn new(begin: Instant) -> Client {
        Client {
            reads: Histogram::new(),
            updates: Histogram::new(),
            timeline: Timeline::new(begin, Duration::from_millis(STALL_MS)),
        }
    }
}

fn client(
    mut connection: Connection,
    number: u64,
    zipf: &Zipf,
    work: &Work,
    begin: Instant,
) -> Outcome<Client> {
    let Work { documents, time, .. } = *work;
    let mut seen = Client::new(begin);
    let (mut reads, mut updates) = (Reads::new(number, documents), Updates::new(number));
    let mut random = Random::new(number * 104_729);
    while begin.elapsed() < time {
        let document = zipf.next(&mut random);
        let reading = random.below(2) == 0;
        let frame = if reading { reads.of(document) } else { updates.of(document) };
        let sent = Instant::now();
        let reply = connection.call(frame).map_err(failed("calling"))?;
        let took = sent.elapsed();
        let good = if reading { reads.good(reply) } else { Updates::good(reply) };
        if !good && work.checked {
            let text = String::from_utf8_lossy(reply.get(21..).unwrap_or(&[])).into_owned();
            return Err(Problem::Failed(format!("unexpected reply {text}")));
        }
        let latencies = if reading { &mut seen.reads } else { &mut seen.updates };
        latencies.record(took.as_nanos() as u64);
        seen.timeline.record(sent, took);
    }
    Ok(seen)
}

/// Counts the gaps of the rate: all gaps; those that no pause of the machine overlaps; and, of the latter,
/// those in which other processes used little of the machine.
fn gaps(run: &Run) -> (usize, Option<usize>, Option<usize>) {
    let below = run.all.timeline.slots_below(GAP);
    let touched = |at: Duration, pauses: &[Pause]| {
        pauses.iter().any(|pause| pause.at < at + WINDOW && at < pause.at + pause.took)
    };
    let taken = |at: Duration| {
        let window = (at.as_nanos() / WINDOW.as_nanos()) as usize;
        run.others.get(window).is_some_and(|share| *share >= TAKEN)
    };
    let Some(pauses) = &run.pauses else { return (below.len(), None, None) };
    let own: Vec<_> = below.iter().filter(|(at, _)| !touched(*at, pauses)).collect();
    let alone = own.iter().filter(|(at, _)| !taken(*at)).count();
    (below.len(), Some(own.len()), Some(alone))
}

/// The runs as columns.
fn columns(run: &Run, control: &Run, warmed: Option<&Run>) -> Vec<Vec<String>> {
    let mut columns: Vec<(String, &Run)> =
        vec![("measured".to_owned(), run), ("bare echo".to_owned(), control)];
    columns.extend(warmed.map(|warmed| (format!("the {:.0} s before", warmed.seconds), warmed)));
    let heads = columns.iter().map(|(head, _)| head.clone());
    let head = std::iter::once("what".to_owned()).chain(heads).collect();
    let tables: Vec<_> = columns.iter().map(|(_, run)| table(run)).collect();
    let row = |at: usize| {
        let name = tables[0][at].0.to_owned();
        std::iter::once(name).chain(tables.iter().map(|table| table[at].1.clone())).collect()
    };
    std::iter::once(head).chain((0..tables[0].len()).map(row)).collect()
}

fn table(run: &Run) -> Vec<(&'static str, String)> {
    let timeline = &run.all.timeline;
    let own_stalls = run.pauses.as_ref().map(|pauses| {
        let own = timeline.stalls().iter().filter(|s| !explains(pauses, s.at, s.took));
        own.count()
    });
    let (all_gaps, own_gaps, alone_gaps) = gaps(run);
    let or_dash = |value: Option<String>| value.unwrap_or("-".to_owned());
    let megabytes = |bytes: Option<u64>| or_dash(bytes.map(|bytes| (bytes >> 20).to_string()));
    let mut rows: Vec<(&str, String)> = vec![("seconds", format!("{:.0}", run.seconds))];
    let count = run.all.reads.count() + run.all.updates.count();
    rows.push(("operations/s", format!("{:.0}", count as f64 / run.seconds)));
    rows.push(("operations/s, median window", format!("{:.0}", timeline.median_per_second())));
    let cpu = run.cpu_us.map(|us| format!("{:.1}", us as f64 / count.max(1) as f64));
    rows.push(("server CPU us an operation", or_dash(cpu)));
    for (name, histogram) in [("read", &run.all.reads), ("update", &run.all.updates)] {
        let us = |share: f64| histogram.quantile(share) as f64 / 1e3;
        let quantiles = format!("{:.0} / {:.0} / {:.0}", us(0.5), us(0.99), us(0.999));
        let (quantile_row, max_row) = match name {
            "read" => ("read p50 / p99 / p99.9 us", "read max ms"),
            _ => ("update p50 / p99 / p99.9 us", "update max ms"),
        };
        rows.push((quantile_row, quantiles));
        rows.push((max_row, format!("{:.1}", histogram.max() as f64 / 1e6)));
    }
    rows.push(("operations over 50 ms", timeline.stall_count().to_string()));
    rows.push(("of them not in a pause", or_dash(own_stalls.map(|n| n.to_string()))));
    rows.push(("windows below half the median", all_gaps.to_string()));
    rows.push(("of them without a pause", or_dash(own_gaps.map(|n| n.to_string()))));
    let alone = or_dash(alone_gaps.map(|n| n.to_string()));
    rows.push(("of these, others had under a quarter of the machine", alone));
    let shares = || run.others.iter().copied();
    let mean = shares().sum::<f64>() / run.others.len().max(1) as f64;
    let most = shares().fold(0.0, f64::max);
    rows.push((
        "machine taken by others, mean / most %",
        format!("{:.0} / {:.0}", mean * 1e2, most * 1e2),
    ));
    let paused = run.pauses.as_ref().map(|pauses| {
        let worst = pauses.iter().map(|pause| pause.took).max().unwrap_or_default();
        format!("{} / {:.1}", pauses.len(), worst.as_secs_f64() * 1e3)
    });
    rows.push(("pauses of the machine / longest ms", or_dash(paused)));
    rows.push(("resident MB", megabytes(run.resident_bytes)));
    rows.push(("disk MB", megabytes(run.disk_bytes)));
    rows
}

fn page(run: &Run, rows: &[Vec<String>]) -> Page {
    let mut page = Page::new("nagi-bench mixed");
    page.table(rows);
    let points: Vec<_> = run.all.timeline.points().collect();
    page.plot(&Plot {
        title: "Operations a second",
        unit: "/s",
        points: points.iter().map(|p| (p.0, p.1)).collect(),
        limit: None,
    });
    page.plot(&Plot {
        title: "Worst operation in each tenth of a second",
        unit: "ms",
        points: points.iter().map(|p| (p.0, p.2)).collect(),
        limit: Some(STALL_MS as f64),
    });
    page
}

/// The table, and the times of events: gaps as seconds since the epoch and shares of the median, stalls as
/// seconds and milliseconds. They can be compared with the server's log.
fn json(run: &Run, rows: &[Vec<String>]) -> String {
    let began = run.began.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    let stalls = run.all.timeline.stalls().iter().map(|s| (s.at, ms(s.took))).collect();
    let pauses = run.pauses.iter().flatten().map(|p| (p.at, ms(p.took))).collect();
    let window = |(n, share): (u32, f64)| (WINDOW * n, share);
    let others = (0_u32..).zip(run.others.iter().copied()).filter(|(_, share)| *share >= TAKEN);
    let lists: [(&str, Vec<(Duration, f64)>); 4] = [
        ("gaps", run.all.timeline.slots_below(GAP)),
        ("taken_by_others", others.map(window).collect()),
        ("stalls", stalls),
        ("pauses", pauses),
    ];
    JsonWriter::file(|w| {
        w.object(|w| {
            for row in &rows[1..] {
                w.line(2);
                w.key(&row[0]).array(|w| row[1..].iter().for_each(|cell| w.string(cell)));
            }
            for (name, pairs) in lists {
                w.line(2);
                w.key(name).array(|w| {
                    for (at, value) in pairs {
                        w.array(|w| {
                            w.fixed(began + at.as_secs_f64(), 3);
                            w.fixed(value, 3);
                        });
                    }
                });
            }
            w.last_line(0);
        });
    })
}
