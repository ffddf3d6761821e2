//! `nagi-bench limit --statistics true`: what statistics cost point reads.
//!
//! Three servers with the same documents are measured in turn:
//!
//! | side          | server                                                                        |
//! |---------------|-------------------------------------------------------------------------------|
//! | `off`         | no console, no alerts, no diagnostic data                                     |
//! | `statistics`  | console, alerts and diagnostic data, as by default; meanwhile a client reads  |
//! |               | the console's stream of samples, and another one `/metrics` each second       |
//! | `query stats` | the same, and `$queryStats` records every query                               |
//!
//! Each round measures all sides, beginning with another one each time, and compares each with `off` of the same round;
//! the median of the rounds' ratios is reported, which the noise of the machine affects least. The servers that are not
//! measured are stopped (SIGSTOP): what they do in the background would slow the others down as well.
use crate::args::{Args, Outcome, Problem, failed};
use crate::limit::{self, Plan, Sizes, fill, median, reader};
use crate::load::{self, Measured};
use crate::process::{Scratch, Server, free_port};
use crate::report;
use nagi_bson::json::JsonWriter;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const OFF: &str = "off";
const SIDES: &[SideRow] = &[
    SideRow {
        name: OFF,
        is_watched: false,
        options: &[
            "--noconsole",
            "--noalerts",
            "--setParameter",
            "diagnosticDataCollectionEnabled=false",
        ],
    },
    SideRow { name: "statistics", is_watched: true, options: &[] },
    SideRow {
        name: "query stats",
        is_watched: true,
        options: &["--setParameter", "internalQueryStatsRateLimit=-1"],
    },
];
/// The goal of `statistics`, as a share of the rate without.
const GOAL: f64 = 0.97;
const SCRAPED_EVERY: Duration = Duration::from_secs(1);
/// A measurement that takes so long must have seen a sample of the console.
const SAMPLED_WITHIN: Duration = Duration::from_secs(2);
const START_MAX: Duration = Duration::from_secs(10);
/// A reader of the stream looks so often if it is to stop.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// Limit of a reply of `/metrics`.
const METRICS_BYTES_MAX: u64 = 16 << 20;

/// A server to measure.
struct SideRow {
    name: &'static str,
    /// It has a console, which is watched.
    is_watched: bool,
    options: &'static [&'static str],
}

struct Side {
    name: &'static str,
    server: Server,
    /// The port of its console.
    console: Option<u16>,
}

/// The measurements of one side and number of connections, one for each round.
struct Runs {
    side: &'static str,
    connections: usize,
    measured: Vec<Measured>,
}

/// What a side does, compared with `off`.
struct Compared {
    side: &'static str,
    connections: usize,
    ops_per_second: f64,
    cpu_us_per_op: Option<f64>,
    /// Median, least and greatest ratio of the rates of a round.
    ratio: (f64, f64, f64),
    /// Median ratio of the processor time for a read.
    cpu_ratio: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (documents, plan) = (limit::documents(args)?, Plan::parse(args)?);
    let scratch = Scratch::new(args)?;
    let program = args.nagi()?;
    let mut sides = Vec::new();
    for row in SIDES {
        let console = row.is_watched.then(free_port).transpose()?;
        let port = console.map(|port| port.to_string());
        let mut options: Vec<&str> = row.options.to_vec();
        options.extend(port.iter().flat_map(|port| ["--consolePort", port.as_str()]));
        let path = scratch.path.join(row.name.replace(' ', "-"));
        let server = Server::nagi_with(&program, &path, &options)?;
        fill(&server.address, documents)?;
        console.map_or(Ok(()), answers)?;
        sides.push(Side { name: row.name, server, console });
    }
    let size = Sizes::measure(&sides[0].server.address)?.read.1;
    let runs = measure(&sides, (documents, size), &plan)?;
    let compared: Vec<Compared> = runs.iter().filter_map(|own| compare(own, &runs)).collect();
    report::say(&table(&compared));
    summary(&compared);
    match args.text("json") {
        Some(path) => std::fs::write(path, to_json(&compared)).map_err(failed(path)),
        None => Ok(()),
    }
}

/// Waits until a console answers: it listens a moment after the server.
fn answers(console: u16) -> Outcome {
    let begin = Instant::now();
    while begin.elapsed() < START_MAX {
        if scrape(console).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(Problem::Failed(format!("the console at port {console} does not answer")))
}

fn measure(sides: &[Side], (documents, size): (i64, usize), plan: &Plan) -> Outcome<Vec<Runs>> {
    let mut all = Vec::new();
    for &connections in &plan.connections {
        let mut runs: Vec<Runs> = sides
            .iter()
            .map(|side| Runs { side: side.name, connections, measured: Vec::new() })
            .collect();
        for round in 0..plan.rounds {
            for at in (0..sides.len()).map(|at| (at + round) % sides.len()) {
                let senders = (0..connections).map(|n| reader(n as u64, documents, size)).collect();
                let (side, others) = (&sides[at], sides.iter().enumerate());
                let others = others.filter(|(other, _)| *other != at).map(|(_, side)| side);
                others.for_each(|other| other.server.pause());
                side.server.resume();
                let watching = side.console.map(Watching::begin);
                let cpu = || Some(side.server.cpu_us());
                let measured = load::run(&side.server.address, senders, plan.time, &cpu);
                if let Some(watching) = watching {
                    watching.end(plan.time)?;
                }
                runs[at].measured.push(measured?);
            }
        }
        all.extend(runs);
    }
    Ok(all)
}

/// A page of the console that is open, and a scraper, each on a thread.
struct Watching {
    stop: Arc<AtomicBool>,
    /// Dropped to stop the scraper.
    wake: mpsc::Sender<()>,
    samples: Arc<AtomicU64>,
    stream: JoinHandle<io::Result<()>>,
    scraper: JoinHandle<io::Result<u64>>,
}

impl Watching {
    fn begin(console: u16) -> Watching {
        let (stop, samples) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (wake, woken) = mpsc::channel();
        let (is_over, counted) = (Arc::clone(&stop), Arc::clone(&samples));
        let stream = thread::spawn(move || read_stream(console, &is_over, &counted));
        let scraper = thread::spawn(move || {
            let mut count = 0;
            loop {
                scrape(console)?;
                count += 1;
                if woken.recv_timeout(SCRAPED_EVERY) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return Ok(count);
                }
            }
        });
        Watching { stop, wake, samples, stream, scraper }
    }

    /// # Errors
    /// If nothing came: then the measurement does not tell what it should.
    fn end(self, time: Duration) -> Outcome {
        self.stop.store(true, Relaxed);
        drop(self.wake);
        let panicked = |_| Problem::Failed("a client of the console panicked".to_owned());
        self.stream.join().map_err(panicked)?.map_err(failed("reading the console's stream"))?;
        let scrapes = self.scraper.join().map_err(panicked)?.map_err(failed("reading /metrics"))?;
        let samples = self.samples.load(Relaxed);
        if scrapes == 0 || (samples == 0 && time >= SAMPLED_WITHIN) {
            let text =
                format!("the console sent {samples} samples, /metrics was read {scrapes} times");
            return Err(Problem::Failed(text));
        }
        Ok(())
    }
}

fn get(console: u16, path: &str, headers: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", console))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{console}\r\n{headers}\r\n")?;
    Ok(stream)
}

/// Reads `/metrics` once.
fn scrape(console: u16) -> io::Result<()> {
    let mut reply = Vec::new();
    get(console, "/metrics", "connection: close\r\n")?
        .take(METRICS_BYTES_MAX)
        .read_to_end(&mut reply)?;
    let has_figures = count(&reply, b"nagi_operations_total") > 0;
    match reply.starts_with(b"HTTP/1.1 200") && has_figures {
        true => Ok(()),
        false => Err(unexpected(&reply)),
    }
}

fn unexpected(reply: &[u8]) -> io::Error {
    let beginning = &reply[..reply.len().min(200)];
    io::Error::other(format!("unexpected reply {}", String::from_utf8_lossy(beginning)))
}

/// Reads the stream of samples, as a page of the console does, and counts them.
fn read_stream(console: u16, stop: &AtomicBool, samples: &AtomicU64) -> io::Result<()> {
    const SAMPLE: &[u8] = b"event: sample";
    let mut stream = get(console, "/api/stream", "accept: text/event-stream\r\n")?;
    stream.set_read_timeout(Some(LOOK_EACH))?;
    let mut buffer = vec![0; 64 << 10];
    // The end of what was read, which may be the beginning of a name.
    let mut kept = 0;
    let mut is_first = true;
    while !stop.load(Relaxed) {
        let read = match stream.read(&mut buffer[kept..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        let seen = &buffer[..kept + read];
        if is_first && !seen.starts_with(b"HTTP/1.1 200") {
            return Err(unexpected(seen));
        }
        is_first = false;
        samples.fetch_add(count(seen, SAMPLE), Relaxed);
        let end = seen.len();
        kept = end.min(SAMPLE.len() - 1);
        buffer.copy_within(end - kept..end, 0);
    }
    Ok(())
}

/// How often `text` is in `bytes`.
fn count(bytes: &[u8], text: &[u8]) -> u64 {
    bytes.windows(text.len()).filter(|window| *window == text).count() as u64
}

/// Compares a side with `off`; `None` for `off` of no rounds.
fn compare(own: &Runs, all: &[Runs]) -> Option<Compared> {
    let off = all.iter().find(|one| one.side == OFF && one.connections == own.connections)?;
    let pairs = || own.measured.iter().zip(&off.measured);
    let mut ratios: Vec<f64> =
        pairs().map(|(own, off)| own.ops_per_second() / off.ops_per_second()).collect();
    let mut cpu_ratios: Vec<f64> = pairs()
        .filter_map(|(own, off)| Some(own.cpu_us_per_op()? / off.cpu_us_per_op()?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    cpu_ratios.sort_by(f64::total_cmp);
    let middle = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied();
    let typical = median(own.measured.clone());
    Some(Compared {
        side: own.side,
        connections: own.connections,
        ops_per_second: typical.ops_per_second(),
        cpu_us_per_op: typical.cpu_us_per_op(),
        ratio: (middle(&ratios)?, *ratios.first()?, *ratios.last()?),
        cpu_ratio: middle(&cpu_ratios),
    })
}

fn table(compared: &[Compared]) -> String {
    let head = ["side", "conns", "ops/s", "cpu us/op", "of off", "least", "greatest", "cpu of off"];
    let or_dash = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let row = |one: &Compared| {
        vec![
            one.side.to_owned(),
            one.connections.to_string(),
            format!("{:.0}", one.ops_per_second),
            or_dash(one.cpu_us_per_op, 1),
            format!("{:.3}", one.ratio.0),
            format!("{:.3}", one.ratio.1),
            format!("{:.3}", one.ratio.2),
            or_dash(one.cpu_ratio, 3),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(compared.iter().map(row)).collect();
    report::columns(&rows)
}

fn summary(compared: &[Compared]) {
    for one in compared.iter().filter(|one| one.side != OFF) {
        report::say(&format!(
            "limit: with {}, {} connections read {:.3} times as fast as without (goal {GOAL})\n",
            one.side, one.connections, one.ratio.0
        ));
    }
}

fn to_json(compared: &[Compared]) -> String {
    JsonWriter::file(|w| {
        w.rows(0, compared, |w, one| {
            w.object(|w| {
                w.key("side").string(one.side);
                w.key("connections").literal(one.connections);
                w.key("ops_per_second").fixed(one.ops_per_second, 1);
                w.key("cpu_us_per_op").fixed_or_null(one.cpu_us_per_op, 3);
                w.key("of_off").fixed(one.ratio.0, 4);
                w.key("of_off_least").fixed(one.ratio.1, 4);
                w.key("of_off_greatest").fixed(one.ratio.2, 4);
                w.key("cpu_of_off").fixed_or_null(one.cpu_ratio, 4);
            });
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use std::net::TcpListener;

    fn measured(operations: u64, cpu_us: u64) -> Measured {
        let mut latencies = Histogram::new();
        (0..operations).for_each(|_| latencies.record(1000));
        Measured { seconds: 1.0, latencies, cpu_us: Some(cpu_us) }
    }

    /// Each round is compared with its own round, so one that was slow for both does not matter.
    #[test]
    fn rounds_are_compared_one_by_one() {
        let runs = |side, figures: [(u64, u64); 3]| Runs {
            side,
            connections: 1,
            measured: figures.map(|(operations, cpu_us)| measured(operations, cpu_us)).to_vec(),
        };
        let all = [
            runs(OFF, [(1000, 20_000), (100, 2000), (500, 10_000)]),
            runs("statistics", [(960, 20_000), (98, 2000), (450, 10_000)]),
        ];
        let compared: Vec<Compared> = all.iter().filter_map(|own| compare(own, &all)).collect();
        assert_eq!(compared[0].ratio, (1.0, 1.0, 1.0));
        assert_eq!(compared[1].ratio, (0.96, 0.9, 0.98));
        assert_eq!(compared[1].ops_per_second, 450.0);
        assert!(compared[1].cpu_ratio.unwrap() > 1.04);
        let json = to_json(&compared);
        assert!(
            json.contains("\"of_off\": 0.9600") || json.contains("\"of_off\":0.9600"),
            "{json}"
        );
        assert!(table(&compared).contains("0.960"), "{}", table(&compared));
    }

    /// A name that comes in two pieces is counted once.
    #[test]
    fn samples_of_a_stream_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /api/stream HTTP/1.1\r\n"));
            for piece in [
                "HTTP/1.1 200 OK\r\n\r\nevent: sam",
                "ple\ndata: {}\n\nevent: sample\n\nevent: work\n",
            ] {
                stream.write_all(piece.as_bytes()).unwrap();
                stream.flush().unwrap();
            }
        });
        let (stop, samples) = (AtomicBool::new(false), AtomicU64::new(0));
        // The end of the stream is an error, because a page would reconnect.
        assert!(read_stream(port, &stop, &samples).is_err());
        assert_eq!(samples.load(Relaxed), 2);
        server.join().unwrap();
    }
}
