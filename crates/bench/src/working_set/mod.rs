//! `nagi-bench working-set`: measures throughput while the data grows beyond the memory.
//!
//! This repeats an experiment of 2018: YCSB's documents and uniform reads by `_id` from 16 connections, on
//! three disks, at sizes that are 92, 138, 182 and 230 % of the cache that MongoDB 3.4 would have on a machine
//! with this much memory (34.6 % of it). As root the server runs inside a memory cgroup on a loop-mounted file
//! system whose device is throttled. Otherwise, or with `--uri`, it runs without limits.
//!
//! One server is used for the whole run. It is filled up to the next size, warmed on the fast disk until the
//! rate no longer grows, then measured on each disk.
pub(crate) mod limits;
mod results;

use crate::args::{Args, Outcome, wrong};
use crate::client::address;
use crate::load::{self, Measured};
use crate::process::{Scratch, Server};
use crate::progress::Progress;
use crate::report;
use crate::ycsb::{Reads, fill};
use limits::Limits;
use results::Cell;
use std::time::{Duration, Instant};

/// Effective cache of MongoDB 3.4 in thousandths of the memory: 2,644 of 7,634 MB.
const MONGODB_CACHE_PERMILLE: u64 = 346;
/// Size of a document in that experiment: 2.43 GB for two million.
const DOCUMENT_BYTES: u64 = 1215;
/// Percentage of the memory that a server with its own cache and direct I/O may use.
const BUDGET_PERCENT: u64 = 75;
/// Minimum memory: `BUDGET_PERCENT` of it is the smallest cache that a server accepts.
const MEGABYTES_MIN: u64 = 342;
const SIZES: &str = "92,138,182,230";
const DISKS: &[&str] = &["fast", "5000", "600", "150"];
/// The rate has settled when a window of this length is at most 3 % above the one before.
const WINDOW: Duration = Duration::from_secs(3);
const SETTLED: f64 = 1.03;

/// The parameters of the measurement.
struct Plan {
    memory_bytes: u64,
    sizes: Vec<u64>,
    disks: Vec<String>,
    threads: usize,
    time: Duration,
    warm_max: Duration,
}

impl Plan {
    fn parse(args: &Args) -> Outcome<Plan> {
        let least = MEGABYTES_MIN;
        let megabytes: u64 = args.number_in("memory-megabytes", 1024, least..=1 << 20)?;
        let seconds: f64 = args.number_in("seconds", 20.0, 0.1..=3600.0)?;
        let warm: u64 = args.number_in("warm-seconds", 120, 0..=36_000)?;
        let threads: usize = args.number_in("threads", 16, 1..=1024)?;
        let sizes = args.numbers_in("sizes", SIZES, 1..=10_000)?;
        if !sizes.is_sorted() {
            return Err(wrong("`--sizes` must ascend: the data only grows".to_owned()));
        }
        let disks = args.words("disks", DISKS)?.into_iter().map(str::to_owned).collect();
        Ok(Plan {
            memory_bytes: megabytes << 20,
            sizes,
            disks,
            threads,
            time: Duration::from_secs_f64(seconds),
            warm_max: Duration::from_secs(warm),
        })
    }

    fn documents(&self, size: u64) -> u64 {
        let cache = self.memory_bytes / 1000 * MONGODB_CACHE_PERMILLE;
        cache * size / 100 / DOCUMENT_BYTES
    }
}

/// The server that is measured.
struct Target {
    name: String,
    address: String,
    /// The limits on memory and disk, if this program set them.
    limits: Option<Limits>,
    /// The process, if this program started it without limits.
    server: Option<Server>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut plan = Plan::parse(args)?;
    let scratch = Scratch::new(args)?;
    let mut target = target(args, &plan, &scratch)?;
    if target.limits.is_none() {
        plan.disks = vec!["as it is".to_owned()];
    }
    report::say(&format!(
        "working-set: {}, {} MiB of memory, {} connections, MongoDB 3.4 would cache {} MiB\n",
        target.name,
        plan.memory_bytes >> 20,
        plan.threads,
        (plan.memory_bytes >> 20) * MONGODB_CACHE_PERMILLE / 1000,
    ));
    let mut cells = Vec::new();
    let mut have = 0;
    for size in &plan.sizes {
        let documents = plan.documents(*size);
        target.throttle("fast")?;
        fill(&target.address, have..documents)?;
        have = documents;
        warm(&target, documents, &plan)?;
        for disk in &plan.disks {
            target.throttle(disk)?;
            // Work that the faster disk left unfinished is not part of this disk's figures.
            measure(&target, documents, plan.threads, plan.time.min(Duration::from_secs(3)))?;
            let measured = measure(&target, documents, plan.threads, plan.time)?;
            let resident = target.resident_bytes();
            let cell = Cell { documents, size: *size, disk: disk.clone(), measured, resident };
            report::say(&cell.line());
            cells.push(cell);
        }
    }
    let rows = results::table(&cells);
    report::say(&report::columns(&rows));
    report::write(
        args,
        || results::page(&cells, &target.name, plan.memory_bytes),
        || results::json(&cells, &target.name),
    )?;
    target.end()
}

fn target(args: &Args, plan: &Plan, scratch: &Scratch) -> Outcome<Target> {
    if let Some(uri) = args.text("uri") {
        let (name, uri) = uri.split_once('=').unwrap_or(("peer", uri));
        let address = address(uri)?;
        return Ok(Target { name: name.to_owned(), address, limits: None, server: None });
    }
    let program = args.nagi()?;
    let name = "nagi".to_owned();
    let budget = plan.memory_bytes / 100 * BUDGET_PERCENT;
    let gigabytes = format!("{:.4}", budget as f64 / f64::from(1 << 30));
    let mut more = vec!["--wiredTigerCacheSizeGB", gigabytes.as_str()];
    // Further options of the server, for comparisons.
    more.extend(args.all("server-option"));
    let file_system = args.word("fs", "ext4", &["ext3", "ext4", "xfs"])?;
    if args.word("limits", "yes", &["yes", "no"])? == "yes" && limits::possible() {
        let largest = plan.sizes.last().map_or(0, |size| plan.documents(*size)) * DOCUMENT_BYTES;
        let limits = Limits::start(
            &program,
            &scratch.path,
            file_system,
            largest * 4 + (2 << 30),
            plan.memory_bytes,
            &more,
        )?;
        let address = limits.address().to_owned();
        return Ok(Target { name, address, limits: Some(limits), server: None });
    }
    report::say(
        "working-set: not root (or --limits no): no memory limit, the disk as it is; the page cache may help\n",
    );
    let server = Server::nagi_with(&program, &scratch.path.join("nagi"), &more)?;
    Ok(Target { name, address: server.address.clone(), limits: None, server: Some(server) })
}

impl Target {
    fn throttle(&self, disk: &str) -> Outcome {
        self.limits.as_ref().map_or(Ok(()), |limits| limits.throttle(disk))
    }

    fn resident_bytes(&self) -> Option<u64> {
        let server = self.server.as_ref().map(Server::id);
        crate::resident::resident_bytes(self.limits.as_ref().map(Limits::id).or(server)?)
    }

    fn end(&mut self) -> Outcome {
        self.limits.take().map_or(Ok(()), Limits::end)
    }
}

fn measure(target: &Target, documents: u64, threads: usize, time: Duration) -> Outcome<Measured> {
    let senders = (0..threads).map(|n| Reads::sender(n as u64, documents)).collect();
    load::run(&target.address, senders, time, &|| None)
}

/// Reads until the rate no longer grows.
fn warm(target: &Target, documents: u64, plan: &Plan) -> Outcome {
    let (begin, mut last) = (Instant::now(), 0.0);
    let mut progress = Progress::new("warming", plan.warm_max.as_secs());
    while begin.elapsed() < plan.warm_max {
        let rate = measure(target, documents, plan.threads, WINDOW)?.ops_per_second();
        // Each document should have been requested about twice; before that, the rate may only seem settled.
        let asked = rate * begin.elapsed().as_secs_f64();
        if rate < last * SETTLED && asked > documents as f64 * 2.0 {
            break;
        }
        last = rate;
        progress.at(begin.elapsed().as_secs());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: &[&str]) -> Outcome<Plan> {
        Plan::parse(&crate::table::args("working-set", args)?)
    }

    #[test]
    fn sizes_follow_from_the_memory() {
        let plan = plan(&["--memory-megabytes", "7634"]).unwrap();
        let two_million = plan.documents(92) as f64;
        assert!((two_million / 2.1e6 - 1.0).abs() < 0.02, "{two_million}");
        assert_eq!(plan.disks, ["fast", "5000", "600", "150"]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for wrong in
            [["--sizes", "92,x"], ["--sizes", "138,92"], ["--disks", "7"], ["--threads", "0"]]
        {
            assert!(plan(&wrong).is_err(), "{wrong:?}");
        }
    }
}
