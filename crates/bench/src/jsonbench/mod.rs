//! `nagi-bench jsonbench`: runs the five queries of ClickHouse's JSONBench over synthetic events.
//!
//! A million events in Bluesky's form ([`events`]) are loaded. Each query runs several times without an index
//! and with the index that the benchmark's page gives MongoDB. The result is the best time of the rounds, as on
//! that page. Peers get the same documents and the same queries; results that differ from those of the first
//! server are reported.
mod events;
mod queries;

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, address};
use crate::process::{Scratch, Server};
use crate::progress::Progress;
use crate::report;
use events::Events;
use nagi_bson::json::JsonWriter;
use nagi_bson::{DocBuf, Value, doc};
use queries::Query;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_jsonbench";
const COLLECTION: &str = "bluesky";
const BATCH: u64 = 1000;
const SILENCE_MAX: Duration = Duration::from_secs(1800);

/// The figures of one server.
struct Run {
    server: String,
    load_s: f64,
    index_s: f64,
    /// For each query: seconds without and with the index; none if the server refused it.
    seconds: Vec<(Option<f64>, Option<f64>)>,
    answers: Vec<Option<String>>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: u64 = args.number_in("documents", 1_000_000, 100..=1_000_000_000)?;
    let rounds: u32 = args.number_in("rounds", 3, 1..=100)?;
    let scratch = Scratch::new(args)?;
    let mut runs = Vec::new();
    let own = Server::nagi_with(
        &args.nagi()?,
        &scratch.path.join("jsonbench"),
        &args.all("server-option").collect::<Vec<_>>(),
    )?;
    runs.push(measure("nagi", &own.address, documents, rounds)?);
    drop(own);
    if let Some(path) = args.text("peer-ferretdb").filter(|path| !path.is_empty()) {
        let peer = Server::ferretdb(Path::new(path), &scratch.path)?;
        runs.push(measure("ferretdb 1.24", &peer.address, documents, rounds)?);
    }
    for uri in args.all("uri") {
        let (name, uri) = uri.split_once('=').unwrap_or(("peer", uri));
        runs.push(measure(name, &address(uri)?, documents, rounds)?);
    }
    let _ = fs::remove_dir_all(scratch.path.join("jsonbench"));
    report::say(&format!("jsonbench: {documents} events, best of {rounds} rounds, seconds\n"));
    report::say(&report::columns(&table(&runs)));
    if let Some(path) = args.text("json") {
        fs::write(path, json(&runs)).map_err(failed(path))?;
    }
    // Which of two differing results is wrong must be decided by a person.
    disagreements(&runs).iter().for_each(|text| report::say(&format!("{text}\n")));
    Ok(())
}

fn measure(name: &str, server: &str, documents: u64, rounds: u32) -> Outcome<Run> {
    let mut connection = Connection::open(server)?;
    connection.be_patient(SILENCE_MAX)?;
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    let begin = Instant::now();
    load(&mut connection, documents)?;
    let load_s = begin.elapsed().as_secs_f64();
    let queries = queries::all();
    let (mut without, mut answers) = (Vec::new(), Vec::new());
    for query in &queries {
        let (seconds, answer) = best(&mut connection, query, rounds)?;
        without.push(seconds);
        answers.push(answer);
    }
    let begin = Instant::now();
    index(&mut connection)?;
    let index_s = begin.elapsed().as_secs_f64();
    let mut seconds = Vec::new();
    for (query, without) in queries.iter().zip(without) {
        seconds.push((without, best(&mut connection, query, rounds)?.0));
    }
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    Ok(Run { server: name.to_owned(), load_s, index_s, seconds, answers })
}

fn load(connection: &mut Connection, documents: u64) -> Outcome {
    let events = Events::new(documents);
    let mut progress = Progress::new("load", documents);
    for start in (0..documents).step_by(BATCH as usize) {
        let end = (start + BATCH).min(documents);
        let body = DocBuf::build(|out| {
            out.put("insert", COLLECTION);
            out.array("documents", |list| {
                (start..end).for_each(|n| list.push(Value::Doc(events.event(n).as_doc())));
            });
            out.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
        progress.at(end);
    }
    Ok(())
}

fn index(connection: &mut Connection) -> Outcome {
    let command = doc! {
        "createIndexes": COLLECTION,
        "indexes": [{
            "key": { "kind": 1, "commit.operation": 1, "commit.collection": 1, "did": 1, "time_us": 1 },
            "name": "jsonbench"
        }],
        "$db": DATABASE
    };
    connection.expect(command.as_doc()).map(drop)
}

type Answered = (Option<f64>, Option<String>);

/// The best time of the rounds, and the documents of the result; none if the server lacks the stage.
fn best(connection: &mut Connection, query: &Query, rounds: u32) -> Outcome<Answered> {
    let (mut best, mut answer) = (f64::INFINITY, String::new());
    for _ in 0..rounds {
        answer.clear();
        let begin = Instant::now();
        let asked = connection.each(query.command.as_doc(), COLLECTION, |doc| {
            answer.push_str(&format!("{doc:?}\n"));
            Ok(())
        });
        if let Err(Problem::Failed(why)) = asked {
            report::say(&format!("{}: {why:.300}\n", query.name));
            return Ok((None, None));
        }
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok((Some(best), Some(answer)))
}

/// The queries for which two servers return different results.
fn disagreements(runs: &[Run]) -> Vec<String> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let mut out = Vec::new();
    for other in others {
        let pairs = first.answers.iter().zip(&other.answers).zip(queries::all());
        for ((one, two), query) in pairs {
            if let (Some(one), Some(two)) = (one, two)
                && one != two
            {
                let lines = one.lines().zip(two.lines()).find(|(one, two)| one != two);
                out.push(format!("{}, question {}: {lines:?}", other.server, query.name));
            }
        }
    }
    out
}

fn table(runs: &[Run]) -> Vec<Vec<String>> {
    let mut head = vec!["question".to_owned()];
    for run in runs {
        head.extend([run.server.clone(), format!("{} with index", run.server)]);
    }
    let shown = |seconds: Option<f64>| seconds.map_or("refused".to_owned(), |s| format!("{s:.3}"));
    let mut rows = vec![head];
    let mut load = vec!["load, index".to_owned()];
    for run in runs {
        load.extend([shown(Some(run.load_s)), shown(Some(run.index_s))]);
    }
    rows.push(load);
    for (at, query) in queries::all().iter().enumerate() {
        let mut row = vec![query.name.to_owned()];
        for run in runs {
            row.extend([shown(run.seconds[at].0), shown(run.seconds[at].1)]);
        }
        rows.push(row);
    }
    rows
}

fn json(runs: &[Run]) -> String {
    let put = |w: &mut JsonWriter<'_>, run: &Run| {
        w.key("server").string(&run.server);
        w.key("load").fixed(run.load_s, 3);
        w.key("index").fixed(run.index_s, 3);
        w.key("seconds").array(|w| {
            for (first, best) in &run.seconds {
                w.array(|w| {
                    w.fixed_or_null(*first, 4);
                    w.fixed_or_null(*best, 4);
                });
            }
        });
    };
    JsonWriter::file(|w| w.array(|w| runs.iter().for_each(|run| w.object(|w| put(w, run)))))
}
