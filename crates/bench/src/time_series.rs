//! `nagi-bench time-series`: a time series collection beside a plain one with the same measurements.
//!
//! Each sensor measures five fields each second. Clients insert batches, each client those of its own sensors, first
//! into the time series collection, then into the plain one, which has the index `{m.sensor: 1, t: 1}` that the time
//! series collection has by itself, and one on the time. Then the same pipelines run over both in turns, and must find
//! the same.
use std::time::Instant;

use nagi_bson::{Doc, DocBuf, DocWriter, Value, doc, json};

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{BODY_AT, Connection, complaint, frame, integer};
use crate::process::{Scratch, Server};
use crate::random::Random;
use crate::report;

const DATABASE: &str = "nagi_series";
/// The time series collection, and the plain one.
const COLLECTIONS: [&str; 2] = ["series", "plain"];
const BATCH: u64 = 1000;
/// 2026-01-01.
const BEGIN_MS: i64 = 1_767_225_600_000;
const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(600);

/// Pipelines in which `FROM` and `TO` are the ends of a quarter of all times, `NEAR` the begin of its last hundredth.
const QUERIES: &[(&str, &str)] = &[
    ("count", r#"[{"$count": "n"}]"#),
    ("count of a range", r#"[{"$match": {"t": {"$gte": FROM, "$lt": TO}}}, {"$count": "n"}]"#),
    (
        "average by sensor, of a range",
        r#"[{"$match": {"t": {"$gte": FROM, "$lt": TO}}},
            {"$group": {"_id": "$m.sensor", "a": {"$avg": "$temp"}}}]"#,
    ),
    (
        "average by sensor, of a hundredth",
        r#"[{"$match": {"t": {"$gte": NEAR, "$lt": TO}}},
            {"$group": {"_id": "$m.sensor", "a": {"$avg": "$temp"}}}]"#,
    ),
    (
        "averages by minute, of a range",
        r#"[{"$match": {"t": {"$gte": FROM, "$lt": TO}}},
            {"$group": {"_id": {"$dateTrunc": {"date": "$t", "unit": "minute"}},
                        "a": {"$avg": "$temp"}, "h": {"$max": "$hum"}, "n": {"$sum": 1}}}]"#,
    ),
    (
        "averages by minute, one sensor, of a range",
        r#"[{"$match": {"m.sensor": 3, "t": {"$gte": FROM, "$lt": TO}}},
            {"$group": {"_id": {"$dateTrunc": {"date": "$t", "unit": "minute"}},
                        "a": {"$avg": "$temp"}, "p": {"$avg": "$p"}}}]"#,
    ),
    (
        "averages by hour of the day, of a range",
        r#"[{"$match": {"t": {"$gte": FROM, "$lt": TO}}},
            {"$group": {"_id": {"$hour": "$t"}, "a": {"$avg": "$temp"}}}]"#,
    ),
    (
        "average where a value is large, of a range",
        r#"[{"$match": {"t": {"$gte": FROM, "$lt": TO}, "hum": {"$gt": 90}}},
            {"$group": {"_id": "$m.sensor", "a": {"$avg": "$temp"}}}]"#,
    ),
    (
        "smallest and largest, of all",
        r#"[{"$group": {"_id": "$m.sensor", "a": {"$min": "$temp"}, "b": {"$max": "$temp"}}}]"#,
    ),
    (
        "last measurement of each sensor",
        r#"[{"$sort": {"m.sensor": 1, "t": -1}},
            {"$group": {"_id": "$m.sensor", "t": {"$first": "$t"}, "n": {"$first": "$n"}}}]"#,
    ),
    (
        "last measurement of one sensor",
        r#"[{"$match": {"m.sensor": 3}}, {"$sort": {"t": -1}}, {"$limit": 1}, {"$project": {"_id": 0}}]"#,
    ),
];

struct Load {
    measurements: u64,
    sensors: u64,
    clients: u64,
    rounds: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let program = args.nagi()?;
    let measurements = args.number_in("measurements", 10_000_000, BATCH..=1_000_000_000)?;
    let clients = args.number_in("clients", 1, 1..=64)?;
    let rounds = args.number_in("rounds", 3, 1..=100)?;
    for sensors in args.numbers_in("sensors", "5,100,1000", 4..=1_000_000)? {
        let load = Load { measurements, sensors, clients, rounds };
        let scratch = Scratch::new(args)?;
        let cache = ["--wiredTigerCacheSizeGB", "1"];
        let server = Server::nagi_with(&program, &scratch.path.join("data"), &cache)?;
        measure(&server, &load)?;
        let connection = Connection::open(&server.address)?;
        server.stop(connection)?;
    }
    Ok(())
}

fn measure(server: &Server, load: &Load) -> Outcome {
    let mut connection = Connection::open(&server.address)?;
    connection.be_patient(SILENCE_MAX)?;
    create(&mut connection)?;
    let mut table = vec![["", "time series", "plain", "ratio"].map(str::to_owned).to_vec()];
    let mut inserted = Vec::new();
    for collection in COLLECTIONS {
        let (begin, cpu) = (Instant::now(), server.cpu_us());
        std::thread::scope(|scope| -> Outcome {
            let clients: Vec<_> = (0..load.clients)
                .map(|client| scope.spawn(move || insert(server, load, collection, client)))
                .collect();
            clients.into_iter().try_for_each(|client| match client.join() {
                Ok(outcome) => outcome,
                Err(_) => Err(Problem::Failed("a client failed".to_owned())),
            })
        })?;
        let per_second = load.measurements as f64 / begin.elapsed().as_secs_f64();
        let cpu = (server.cpu_us() - cpu) as f64 / load.measurements as f64;
        connection.expect(doc! { "fsync": 1, "$db": "admin" }.as_doc())?;
        inserted.push([per_second, cpu, on_disk(&mut connection, collection)?]);
    }
    for (at, name) in ["inserts/s", "us of CPU each", "MB on disk"].into_iter().enumerate() {
        let (series, plain) = (inserted[0][at], inserted[1][at]);
        table.push(row(name, series, plain, series / plain));
    }
    for (name, pipeline) in QUERIES {
        let (series, plain) = query(&mut connection, load, name, pipeline)?;
        table.push(row(&format!("{name}, ms"), series, plain, plain / series));
    }
    report::say(&format!(
        "{} measurements of {} sensors, {} clients\n",
        load.measurements, load.sensors, load.clients
    ));
    report::say(&report::columns(&table));
    Ok(())
}

fn row(name: &str, series: f64, plain: f64, ratio: f64) -> Vec<String> {
    let text = |n: f64| if n < 100.0 { format!("{n:.2}") } else { format!("{n:.0}") };
    vec![name.to_owned(), text(series), text(plain), text(ratio)]
}

fn create(connection: &mut Connection) -> Outcome {
    let options = doc! { "timeField": "t", "metaField": "m", "granularity": "seconds" };
    let [series, plain] = COLLECTIONS;
    connection.expect(
        doc! { "create": series, "timeseries": (options.as_doc()), "$db": DATABASE }.as_doc(),
    )?;
    let by_sensor = doc! { "key": { "m.sensor": 1, "t": 1 }, "name": "m" };
    let by_time = doc! { "key": { "t": 1 }, "name": "t" };
    let both = [by_sensor.as_doc(), by_time.as_doc()];
    connection.expect(
        doc! { "createIndexes": plain, "indexes": [(both[0]), (both[1])], "$db": DATABASE }
            .as_doc(),
    )?;
    // Of the metadata the time series has an index of its own, but not by its parts.
    connection.expect(
        doc! { "createIndexes": series, "indexes": [(both[0])], "$db": DATABASE }.as_doc(),
    )?;
    Ok(())
}

/// Inserts the measurements of the sensors of one client: all of one second, then those of the next.
fn insert(server: &Server, load: &Load, collection: &str, client: u64) -> Outcome {
    let mut connection = Connection::open(&server.address)?;
    let mut random = Random::new(client + 1);
    let mut batch: Vec<u8> = Vec::new();
    for first in (0..load.measurements).step_by(BATCH as usize) {
        if first / BATCH % load.clients != client {
            continue;
        }
        batch.clear();
        let mut request = DocWriter::new(&mut batch);
        request.put("insert", collection);
        request.array("documents", |out| {
            for n in first..(first + BATCH).min(load.measurements) {
                out.doc(|out| measurement(out, n, load, client, &mut random));
            }
        });
        request.put("ordered", false);
        request.put("$db", DATABASE);
        request.finish();
        let reply = connection.call(&frame(Doc::trusted(&batch))).map_err(failed("inserting"))?;
        let reply = DocBuf::from_bytes(reply.get(BODY_AT..).unwrap_or(&[]).to_vec())
            .map_err(failed("a reply"))?;
        if let Some(text) = complaint(reply.as_doc()) {
            return Err(Problem::Failed(format!("inserting: {text:.300}")));
        }
    }
    Ok(())
}

fn measurement(out: &mut DocWriter<'_>, n: u64, load: &Load, client: u64, random: &mut Random) {
    // Each client has every n-th batch, and every n-th sensor.
    let own = n / BATCH / load.clients * BATCH + n % BATCH;
    let sensors = (load.sensors / load.clients).max(1);
    let (second, sensor) = (own / sensors, own % sensors * load.clients + client);
    let noise = (0..4).map(|_| random.below(400) as i64).sum::<i64>() - 800;
    out.put("t", Value::DateTime(BEGIN_MS + second as i64 * 1000));
    out.doc("m", |out| {
        out.put("sensor", sensor as i32);
        out.put("site", "a");
    });
    out.put("temp", (2000 + noise / 2) as f64 / 100.0);
    out.put("hum", random.below(100) as i32);
    out.put("p", 1013.25 + (second % 50) as f64 / 10.0);
    out.put("ok", true);
    out.put("n", n as i64);
}

/// Megabytes of documents and indexes.
fn on_disk(connection: &mut Connection, collection: &str) -> Outcome<f64> {
    let stats = connection.expect(doc! { "collStats": collection, "$db": DATABASE }.as_doc())?;
    let bytes = |name| integer(stats.get(name)).unwrap_or(0) as f64;
    Ok((bytes("storageSize") + bytes("totalIndexSize")) / 1e6)
}

/// The median times of a query, in milliseconds.
fn query(
    connection: &mut Connection,
    load: &Load,
    name: &str,
    pipeline: &str,
) -> Outcome<(f64, f64)> {
    let seconds = (load.measurements / load.sensors) as i64;
    let date =
        |at: i64| format!("{{\"$date\": {{\"$numberLong\": \"{}\"}}}}", BEGIN_MS + at * 1000);
    let text = pipeline
        .replace("FROM", &date(seconds / 4))
        .replace("NEAR", &date(seconds / 2 - seconds / 100))
        .replace("TO", &date(seconds / 2));
    let pipeline = json::parse(&format!("{{\"p\": {text}}}")).map_err(failed(name))?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..load.rounds {
        let mut results = [Vec::new(), Vec::new()];
        for (at, collection) in COLLECTIONS.into_iter().enumerate() {
            let request = doc! {
                "aggregate": collection,
                "pipeline": (pipeline.get("p")),
                "cursor": { "batchSize": 10_000 },
                "$db": DATABASE
            };
            let begin = Instant::now();
            connection.each(request.as_doc(), collection, |doc| {
                results[at].push(rounded(doc));
                Ok(())
            })?;
            times[at].push(begin.elapsed().as_secs_f64() * 1000.0);
            results[at].sort_unstable();
        }
        if results[0] != results[1] {
            return Err(Problem::Failed(format!("{name}: the results differ")));
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok((median(&mut times[0]), median(&mut times[1])))
}

/// The values of a document; of doubles nine digits, because the last ones depend on the order of sums.
fn rounded(doc: Doc<'_>) -> String {
    let mut values: Vec<String> = doc
        .iter()
        .map(|field| match field.value() {
            Value::Double(n) => format!("{}: {n:.9e}", field.name()),
            other => format!("{}: {other}", field.name()),
        })
        .collect();
    values.sort_unstable();
    values.join(", ")
}
