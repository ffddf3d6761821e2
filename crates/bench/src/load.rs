//! Runs one measurement: n connections, each with a thread that sends a request, waits for the reply and
//! records the latency.
use crate::args::{Outcome, Problem};
use crate::client::Connection;
use crate::histogram::Histogram;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The requests of a connection: `next` patches the frame, `good` checks the reply.
pub(crate) trait Requests: Send {
    fn next(&mut self) -> &[u8];
    fn good(&self, reply: &[u8]) -> bool;
}

/// One row of a report.
#[derive(Clone)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    pub(crate) latencies: Histogram,
    /// Server CPU time in microseconds, if the server's process is visible.
    pub(crate) cpu_us: Option<u64>,
}

impl Measured {
    pub(crate) fn ops_per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.seconds
    }

    pub(crate) fn cpu_us_per_op(&self) -> Option<f64> {
        Some(self.cpu_us? as f64 / self.latencies.count().max(1) as f64)
    }
}

/// Runs every element of `senders` on a connection of its own for `time`.
pub(crate) fn run(
    address: &str,
    senders: Vec<Box<dyn Requests>>,
    time: Duration,
    cpu_us: &dyn Fn() -> Option<u64>,
) -> Outcome<Measured> {
    run_on(&|| Connection::open(address), senders, time, cpu_us)
}

/// As [`run`], on connections that `open` opens.
pub(crate) fn run_on(
    open: &dyn Fn() -> Outcome<Connection>,
    senders: Vec<Box<dyn Requests>>,
    time: Duration,
    cpu_us: &dyn Fn() -> Option<u64>,
) -> Outcome<Measured> {
    let (stop, barrier) = (AtomicBool::new(false), Barrier::new(senders.len() + 1));
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for sender in senders {
            let connection = open()?;
            let (stop, barrier) = (&stop, &barrier);
            workers.push(scope.spawn(move || worker(connection, sender, stop, barrier)));
        }
        barrier.wait();
        let (before, begin) = (cpu_us(), Instant::now());
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let (seconds, after) = (begin.elapsed().as_secs_f64(), cpu_us());
        let mut latencies = Histogram::new();
        for worker in workers {
            let part = worker.join().map_err(|_| Problem::Failed("a client panicked".into()))?;
            latencies.merge(&part.map_err(|e| Problem::Failed(format!("a connection: {e}")))?);
        }
        let cpu_us = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(Measured { seconds, latencies, cpu_us })
    })
}

fn worker(
    mut connection: Connection,
    mut sender: Box<dyn Requests>,
    stop: &AtomicBool,
    barrier: &Barrier,
) -> std::io::Result<Histogram> {
    let mut latencies = Histogram::new();
    // The first exchange includes the set-up of the connection on both sides; it is not counted.
    let first = connection.call(sender.next()).map(|_| ());
    barrier.wait();
    first?;
    while !stop.load(Ordering::Relaxed) {
        let frame = sender.next();
        let begin = Instant::now();
        let reply = connection.call(frame)?;
        latencies.record(begin.elapsed().as_nanos() as u64);
        if !sender.good(reply) {
            return Err(std::io::Error::other(format!(
                "unexpected reply {}",
                String::from_utf8_lossy(reply.get(16..).unwrap_or(&[]))
            )));
        }
    }
    Ok(latencies)
}
