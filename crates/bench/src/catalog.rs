//! `nagi-bench catalog`: measures the cost of a new collection, and of a start, when many collections exist.
//!
//! Each server in turn is filled up to the number of collections that a row names. Then new collections are
//! created one at a time by inserting a document, without waiting for the disk; the time and the server's CPU
//! time are measured for each. Then the server is restarted and the start is timed.
use crate::args::{Args, Outcome};
use crate::client::Connection;
use crate::histogram::Histogram;
use crate::process::{Scratch, Server};
use crate::report;
use nagi_bson::{DocBuf, doc};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_catalog";
const SAMPLES: u64 = 300;
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// The figures of one server at one number of collections.
struct Found {
    server: String,
    collections: u64,
    create: Histogram,
    cpu_us: u64,
    start: Duration,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut sizes: Vec<u64> =
        args.numbers_in("collections", "1000,12000,100000", 0..=10_000_000)?;
    sizes.sort_unstable();
    let mut servers = vec![("nagi", args.nagi()?)];
    servers.extend(args.text("peer-nagi").map(|path| ("peer", PathBuf::from(path))));
    let mut all = Vec::new();
    for (name, program) in &servers {
        let scratch = Scratch::new(args)?;
        let mut count = 0;
        for size in &sizes {
            let found = measure(name, program, &scratch.path, count, *size)?;
            count = size + SAMPLES;
            all.push(found);
        }
    }
    report::say(&report::columns(&table(&all)));
    Ok(())
}

fn insert(number: u64) -> DocBuf {
    let name = format!("c{number}");
    DocBuf::build(|out| {
        out.put("insert", name.as_str());
        out.array("documents", |list| list.push_doc(doc! { "_id": 1 }.as_doc()));
        out.put("$db", DATABASE);
    })
}

/// Measures one server. `from` is the number of collections that exist already.
fn measure(name: &str, program: &Path, dir: &Path, from: u64, size: u64) -> Outcome<Found> {
    let data = dir.join(name);
    std::fs::create_dir_all(&data).map_err(crate::args::failed("creating a data directory"))?;
    let server = Server::nagi(program, &data)?;
    let mut connection = Connection::open(&server.address)?;
    connection.be_patient(SILENCE_MAX)?;
    if from == 0 {
        // An earlier run on the same data may have left them.
        connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    }
    for number in from..size {
        connection.expect(insert(number).as_doc())?;
    }
    let (mut create, before) = (Histogram::new(), server.cpu_us());
    for number in size..size + SAMPLES {
        let begin = Instant::now();
        connection.expect(insert(number).as_doc())?;
        create.record(begin.elapsed().as_nanos() as u64);
    }
    let cpu_us = (server.cpu_us() - before) / SAMPLES;
    server.stop(connection)?;
    let begin = Instant::now();
    let server = Server::nagi(program, &data)?;
    let mut connection = Connection::open(&server.address)?;
    connection.expect(doc! { "ping": 1, "$db": "admin" }.as_doc())?;
    let start = begin.elapsed();
    server.stop(connection)?;
    Ok(Found { server: name.to_owned(), collections: size, create, cpu_us, start })
}

fn table(all: &[Found]) -> Vec<Vec<String>> {
    let head = ["server", "collections", "create p50 us", "p99 us", "server CPU us", "start ms"];
    let us = |ns: u64| format!("{:.0}", ns as f64 / 1000.0);
    let row = |found: &Found| {
        vec![
            found.server.clone(),
            found.collections.to_string(),
            us(found.create.quantile(0.5)),
            us(found.create.quantile(0.99)),
            found.cpu_us.to_string(),
            found.start.as_millis().to_string(),
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec()).chain(all.iter().map(row)).collect()
}
