//! What operations of clients cost over a cluster, beside a program that uses nothing but TiKV's client and makes the
//! same requests: milliseconds at the median and at the 99th percentile of both, in turns, and requests to stores.
//!
//! `make tikv-costs` starts the cluster and runs it (docs/scale-out.md has a run); it measures, and tests nothing.
//! NAGI is the program, NAGI_TIKV_ROUNDS the number of rounds.

mod bare;
mod wire;

use std::{
    env,
    time::{Duration, Instant},
};

use bare::Bare;
use wire::Server;

use crate::cluster::{calls, new_prefix, placement_driver};

const ROUNDS: u32 = 300;
/// Rounds of operations that take long.
const FEW: u32 = 30;
/// How long requests of a server at rest are counted.
const REST: Duration = Duration::from_secs(3);
const DOCUMENTS: u32 = 10_000;

/// An operation: a command of the server's client, and the same by the client of the cluster.
struct Row {
    name: &'static str,
    rounds: u32,
    command: fn(&mut Server, u32),
    bare: fn(&Bare, u32),
}

static ROWS: &[Row] = &[
    Row {
        name: "find by `_id`",
        rounds: ROUNDS,
        command: |s, n| s.find_id(n),
        bare: |b, n| b.gets(n, 2),
    },
    Row {
        name: "find by `_id`, clustered",
        rounds: ROUNDS,
        command: |s, n| s.find_clustered(n),
        bare: |b, n| b.gets(n, 1),
    },
    Row {
        name: "find by an index, 1 document",
        rounds: ROUNDS,
        command: |s, n| s.find_range(n, 1),
        bare: |b, n| b.range(n, 1),
    },
    Row {
        name: "find by an index, 100 documents",
        rounds: ROUNDS,
        command: |s, n| s.find_range(n, 100),
        bare: |b, n| b.range(n, 100),
    },
    Row {
        name: "find by an index, 10,000 documents",
        rounds: FEW,
        command: |s, _| s.find_range(0, DOCUMENTS),
        bare: |b, _| b.range(0, DOCUMENTS),
    },
    Row {
        name: "insert, no index",
        rounds: ROUNDS,
        command: |s, n| s.insert("plain", n),
        bare: |b, n| b.commit(n, 1, 4),
    },
    Row {
        name: "insert, 2 indexes",
        rounds: ROUNDS,
        command: |s, n| s.insert("indexed", n),
        bare: |b, n| b.commit(n, 1, 6),
    },
    Row {
        name: "insert, as drivers send it",
        rounds: ROUNDS,
        command: |s, n| s.insert_retryable(n),
        bare: |b, n| b.commit(n, 2, 6),
    },
    Row {
        name: "update by `_id`",
        rounds: ROUNDS,
        command: |s, n| s.update(n),
        bare: |b, n| b.commit(n, 2, 2),
    },
    Row {
        name: "transaction, 2 updates",
        rounds: ROUNDS,
        command: |s, n| s.transaction(n),
        bare: |b, n| b.commit(n, 4, 4),
    },
    Row {
        name: "`$lookup` of 100 by `_id`",
        rounds: FEW,
        command: |s, n| s.lookup("found", n),
        bare: |b, n| b.lookup(n, true),
    },
    Row {
        name: "`$lookup` of 100 by `_id`, clustered",
        rounds: FEW,
        command: |s, n| s.lookup("clustered", n),
        bare: |b, n| b.lookup(n, false),
    },
];

#[test]
fn costs_of_operations_beside_the_client_alone() {
    // Other runs of these tests have no program.
    let Ok(program) = env::var("NAGI") else { return };
    let rounds_max = env::var("NAGI_TIKV_ROUNDS").ok().and_then(|text| text.parse().ok());
    let mut server = Server::start(&program, &placement_driver(), &new_prefix());
    server.load(DOCUMENTS);
    let bare = Bare::load(&new_prefix(), DOCUMENTS);
    let idle = requests_in(REST);
    println!("| operation | Nagi p50; p99 | client p50; p99 | ratio of p50 | requests |");
    println!("|---|---|---|---|---|");
    for row in ROWS {
        let rounds = rounds_max.map_or(row.rounds, |most: u32| row.rounds.min(most));
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let (mut requests, mut timed) = (0, Duration::ZERO);
        (0..3).for_each(|n| (row.command)(&mut server, n));
        for n in 3..3 + rounds {
            let (before, begun) = (requests_so_far(), Instant::now());
            let command = Instant::now();
            (row.command)(&mut server, n);
            own.push(command.elapsed());
            timed += begun.elapsed();
            requests += requests_so_far() - before;
            let begun = Instant::now();
            (row.bare)(&bare, n);
            others.push(begun.elapsed());
        }
        let at_rest = idle * timed.as_secs_f64();
        let each = ((requests as f64 - at_rest) / f64::from(rounds)).max(0.0);
        let (own, others) = (percentiles(own), percentiles(others));
        println!(
            "| {} | {:.2}; {:.2} | {:.2}; {:.2} | {:.2} | {each:.1} |",
            row.name,
            own.0,
            own.1,
            others.0,
            others.1,
            own.0 / others.0
        );
    }
}

/// Milliseconds.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |of: usize| times[(times.len() * of / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    (at(50), at(99))
}

/// Requests that read and write data.
fn requests_so_far() -> u64 {
    let counted = |method: &String| method.starts_with("Kv") || method == "Coprocessor";
    calls().iter().filter(|(method, _)| counted(method)).map(|(_, count)| count).sum()
}

/// A second's requests of a server that does nothing.
fn requests_in(time: Duration) -> f64 {
    let (before, until) = (requests_so_far(), Instant::now() + time);
    while Instant::now() < until {
        std::thread::yield_now();
    }
    (requests_so_far() - before) as f64 / time.as_secs_f64()
}
