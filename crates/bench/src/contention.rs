//! `nagi-bench contention`: counts how many cache lines shared by cores each operation writes, and measures the
//! gain of a second core.
//!
//! Few machines have many cores, so shared writes are counted instead of measured: `--counting PATH` names a
//! server built with `--features count-shared`, which counts them by place. Scaling is measured with ordinary
//! servers, on one core and on two, next to the bare engine behind a socket. The number of operations per
//! second of the server's CPU time must hardly fall when a second core works.
use crate::args::{Args, Outcome, failed};
use crate::client::{Connection, frame, integer};
use crate::process::{Scratch, Server};
use crate::random::Random;
use crate::report;
use nagi_bson::{DocBuf, Value, doc};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

const DATABASE: &str = "nagi_contention";
const DOCUMENTS: i64 = 1000;
/// Number of concurrent connections.
const CONNECTIONS: i64 = 4;

/// An operation on one document.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Read,
    Insert,
    Update,
}

const OPERATIONS: [(Operation, &str); 3] = [
    (Operation::Read, "find by _id"),
    (Operation::Insert, "insert"),
    (Operation::Update, "update by _id"),
];

impl Operation {
    /// Builds request number `number` of a connection.
    fn request(self, connection: i64, number: i64, random: &mut Random) -> DocBuf {
        let id = random.below(DOCUMENTS as u64) as i64;
        let own = (connection + 1) << 40 | number;
        match self {
            Operation::Read => {
                doc! { "find": "docs", "filter": { "_id": id }, "limit": 1, "$db": DATABASE }
            }
            Operation::Insert => {
                doc! { "insert": "docs", "documents": [{ "_id": own, "n": 1 }], "$db": DATABASE }
            }
            Operation::Update => {
                let update = doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } } };
                doc! { "update": "docs", "updates": [(update.as_doc())], "$db": DATABASE }
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let operations: i64 = args.number_in("operations", 40_000, 40..=1_000_000_000)?;
    if let Some(counting) = args.text("counting") {
        let scratch = Scratch::new(args)?;
        let server = Server::nagi(&PathBuf::from(counting), &scratch.path.join("counting"))?;
        report::say(&report::columns(&counted(&server, operations)?));
    }
    let mut rows = vec![
        ["operation", "server", "us of CPU, 1 core", "2 cores", "speed-up of its CPU"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (operation, name) in OPERATIONS {
        let mut cost = [Vec::new(), Vec::new()];
        for cores in ["0", "0,1"] {
            let scratch = Scratch::new(args)?;
            let server = Server::nagi(&args.nagi()?, &scratch.path.join("nagi"))?;
            cost[0].push(measure(&server, cores, operation, operations)?);
            if operation == Operation::Insert {
                let server = Server::raw_engine(&scratch.path.join("bare"))?;
                cost[1].push(measure(&server, cores, operation, operations)?);
            }
        }
        for (server, cost) in ["nagi", "bare engine"].iter().zip(&cost) {
            if let [one, two] = cost[..] {
                let speed_up = 2.0 * one / two;
                let cells = [format!("{one:.1}"), format!("{two:.1}"), format!("{speed_up:.2}")];
                let mut row = vec![name.to_owned(), (*server).to_owned()];
                row.extend(cells);
                rows.push(row);
            }
        }
    }
    report::say(&report::columns(&rows));
    Ok(())
}

fn fill(connection: &mut Connection) -> Outcome {
    // An earlier server on the same data may have left the documents. The bare engine stores this as any other frame.
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    for id in 0..DOCUMENTS {
        let insert =
            doc! { "insert": "docs", "documents": [{ "_id": id, "n": 1 }], "$db": DATABASE };
        connection.expect(insert.as_doc())?;
    }
    Ok(())
}

/// Runs the operation on all connections concurrently.
fn work(address: &str, operation: Operation, operations: i64, round: i64) -> Outcome {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                scope.spawn(move || {
                    let mut connection = Connection::open(address)?;
                    let mut random = Random::new(number as u64 + 1);
                    for at in 0..operations / CONNECTIONS {
                        let id = round * operations + at;
                        let request = operation.request(number, id, &mut random);
                        connection
                            .call(&frame(request.as_doc()))
                            .map_err(failed("asking the server"))?;
                    }
                    Ok(())
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client panicked"))
    })
}

/// Microseconds of the server's CPU time per operation, on these cores.
fn measure(server: &Server, cores: &str, operation: Operation, operations: i64) -> Outcome<f64> {
    let mut connection = Connection::open(&server.address)?;
    fill(&mut connection)?;
    let id = server.id().to_string();
    let pinned = Command::new("taskset").args(["-a", "-p", "-c", cores, &id]).output();
    pinned.map_err(failed("taskset"))?;
    work(&server.address, operation, operations / 4, 1)?;
    let (cpu, begin) = (server.cpu_us(), Instant::now());
    work(&server.address, operation, operations, 2)?;
    let (cpu, time) = (server.cpu_us() - cpu, begin.elapsed());
    report::say(&format!("cores {cores}: {operations} operations in {} ms\n", time.as_millis()));
    Ok(cpu as f64 / operations as f64)
}

/// Shared writes per operation, by place.
fn counted(server: &Server, operations: i64) -> Outcome<Vec<Vec<String>>> {
    let mut connection = Connection::open(&server.address)?;
    fill(&mut connection)?;
    let mut rows = vec![
        ["operation", "place", "shared lines written", "by atomic operations"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (operation, name) in OPERATIONS {
        // The first operations are not counted: they create or cache objects once.
        work(&server.address, operation, operations / 10, 1)?;
        let before = shared_writes(&mut connection)?;
        work(&server.address, operation, operations, 2)?;
        let after = shared_writes(&mut connection)?;
        let mut sums = [0.0; 2];
        for (place, writes) in &after {
            let before = before.get(place).copied().unwrap_or_default();
            let each = [0, 1].map(|at| (writes[at] - before[at]) as f64 / operations as f64);
            sums = [0, 1].map(|at| sums[at] + each[at]);
            if each[0] >= 0.005 {
                rows.push(row(name, place, each));
            }
        }
        rows.push(row(name, "all", sums));
    }
    Ok(rows)
}

fn row(operation: &str, place: &str, [lines, operations]: [f64; 2]) -> Vec<String> {
    let (lines, operations) = (format!("{lines:.2}"), format!("{operations:.2}"));
    vec![operation.to_owned(), place.to_owned(), lines, operations]
}

/// Cache lines and atomic operations by place, since the server's start.
fn shared_writes(connection: &mut Connection) -> Outcome<BTreeMap<String, [i64; 2]>> {
    let status = connection.expect(doc! { "serverStatus": 1, "$db": "admin" }.as_doc())?;
    let Value::Doc(places) = status.as_doc().get("sharedWrites") else {
        return Err(crate::args::Problem::Usage(
            "--counting: the server was not built with --features count-shared\n".to_owned(),
        ));
    };
    let counts = |place: Value<'_>| {
        ["lines", "operations"]
            .map(|name| place.as_doc().map_or(0, |at| integer(at.get(name)).unwrap_or(0)))
    };
    Ok(places.iter().map(|place| (place.name().to_owned(), counts(place.value()))).collect())
}
