//! `nagi-bench breadth`: every kind of operation, beside an older binary.
//!
//! Both servers hold the same documents and run each operation in turns, so that a slow minute of the machine affects
//! both. The client does not parse what it receives. A row shows the ratios of times and of CPU times of the two
//! servers; if the older one is built from commit 980636b, also the ratio to MongoDB 4.0.3, which was once measured
//! beside that commit.
//!
//! `--count true` and `--perf DIR` show where the processor's time goes ([`profile`]).
//!
//! With `--bare true` the storage engine does the same work without a server ([`bare`]).
mod bare;
mod columns;
pub(crate) mod data;
mod profile;
mod rows;

use crate::args::{Args, Outcome, Problem, failed, wrong};
use crate::client::{BODY_AT, Connection, complaint, frame, integer};
use crate::process::{Scratch, Server, settled_disk_bytes};
use crate::progress::Progress;
use crate::report;
use crate::resident::resident_bytes;
use data::DATABASE;
use nagi_bson::{Doc, DocBuf, Value, doc};
use profile::Profile;
use rows::{CHANGED, DOCS, Over, ROWS, Row};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SILENCE_MAX: Duration = Duration::from_secs(1800);
const MEGABYTE: f64 = 1_048_576.0;

struct Side {
    name: &'static str,
    server: Server,
    connection: Connection,
    path: PathBuf,
    scale: u64,
    profile: Profile,
}

/// What a turn took.
#[derive(Clone, Copy)]
struct Turn {
    seconds: f64,
    cpu_s: f64,
    resident: u64,
    /// For a document, if they are counted.
    instructions: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let scale: u64 = args.number_in("documents", 1_000_000, 100_000..=100_000_000)?;
    let rounds: usize = args.number_in("rounds", 3, 1..=100)?;
    if args.flag("bare")? {
        if args.text("only").is_some() {
            return Err(wrong(
                "`--bare true` does all of its work, not `--only` a part".to_owned(),
            ));
        }
        return bare::run(&Scratch::new(args)?.path.join("bare"), scale);
    }
    let asked = args.only(ROWS, |row| row.name)?;
    let scratch = Scratch::new(args)?;
    let options: Vec<&str> = args.all("server-option").collect();
    let profile = Profile::of(args, &scratch.path)?;
    let counts = matches!(profile, Profile::Instructions(_));
    let mut sides = Vec::new();
    if let Some(peer) = args.text("peer-nagi") {
        sides.push(Side::start(
            "old",
            Path::new(peer),
            &scratch,
            &options,
            (scale, &Profile::Nothing),
        )?);
    }
    sides.push(Side::start("new", &args.nagi()?, &scratch, &options, (scale, &profile))?);
    if asked.iter().any(|row| row.over == Over::Docs || row.name == "$out") {
        sides.iter_mut().try_for_each(Side::fill)?;
    }
    let mut table = vec![head(counts)];
    let mut progress = Progress::new("operations", asked.len() as u64);
    for (at, row) in asked.into_iter().enumerate() {
        progress.at(at as u64);
        let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); sides.len()];
        for _ in 0..rounds {
            for (side, turns) in sides.iter_mut().zip(&mut turns) {
                turns.push(side.turn(row)?);
            }
        }
        let medians: Vec<_> = turns.iter().map(|turns| median(turns)).collect();
        table.push(cells(row, &medians));
        report::say(&format!("{}\n", table[table.len() - 1].join(" | ")));
    }
    drop(progress);
    report::say(&report::columns(&table));
    Ok(())
}

impl Side {
    fn start(
        name: &'static str,
        program: &Path,
        scratch: &Scratch,
        options: &[&str],
        (scale, profile): (u64, &Profile),
    ) -> Outcome<Side> {
        let path = scratch.path.join(name);
        let mut more = vec!["--cacheSizeGB=2"];
        more.extend(options);
        let server = profile.start(program, &path, &more)?;
        let mut connection = Connection::open(&server.address)?;
        connection.be_patient(SILENCE_MAX)?;
        // An earlier run on the same data may have left it.
        connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
        Ok(Side { name, server, connection, path, scale, profile: profile.clone() })
    }

    fn fill(&mut self) -> Outcome {
        data::load(&mut self.connection, self.name, DOCS, self.scale)?;
        self.index(DOCS, &["thousand"])?;
        settled_disk_bytes(&self.path);
        Ok(())
    }

    fn index(&mut self, collection: &str, fields: &[&str]) -> Outcome {
        for field in fields {
            let key = DocBuf::build(|out| out.put(field, 1_i32));
            let spec = doc! { "key": (key.as_doc()), "name": (*field) };
            let command =
                doc! { "createIndexes": collection, "indexes": [(spec.as_doc())], "$db": DATABASE };
            self.connection.expect(command.as_doc())?;
        }
        Ok(())
    }

    /// Prepares the collection of a row that changes it.
    fn prepare(&mut self, row: &Row) -> Outcome {
        if row.over == Over::Docs {
            return Ok(());
        }
        self.connection
            .command(doc! { "drop": CHANGED, "$db": DATABASE }.as_doc())
            .map_err(failed("drop"))?;
        match row.over {
            Over::New(divisor) | Over::Indexed(divisor) => {
                let all = doc! { "drop": DOCS, "$db": DATABASE };
                self.connection.command(all.as_doc()).map_err(failed("drop"))?;
                data::load(&mut self.connection, self.name, CHANGED, self.scale / divisor)?;
            }
            Over::Docs | Over::Empty => {}
        }
        if let Over::Indexed(_) = row.over {
            self.index(CHANGED, &["thousand", "random", "city"])?;
        }
        if row.over != Over::Empty {
            settled_disk_bytes(&self.path);
        }
        Ok(())
    }

    /// Runs the operation once. Building a request is not measured.
    fn turn(&mut self, row: &Row) -> Outcome<Turn> {
        self.prepare(row)?;
        let recording = self.profile.begin(&self.server, row.name)?;
        let cpu = self.server.cpu_us();
        let mut time = Duration::ZERO;
        for request in (row.requests)(self.scale) {
            let collection = request.as_doc().first().map_or(Value::Missing, |first| first.value());
            let collection = collection.as_str().unwrap_or("").to_owned();
            let request = frame(request.as_doc());
            let begin = Instant::now();
            self.drain(&request, &collection)
                .map_err(|why| Problem::Failed(format!("{}: {}: {why}", self.name, row.name)))?;
            time += begin.elapsed();
        }
        let cpu = self.server.cpu_us().saturating_sub(cpu);
        let instructions = self.profile.end(recording, &self.server)?;
        Ok(Turn {
            instructions: instructions.map(|sum| sum as f64 / row.documents(self.scale) as f64),
            seconds: time.as_secs_f64(),
            cpu_s: cpu as f64 / 1e6,
            resident: resident_bytes(self.server.id()).unwrap_or(0),
        })
    }

    /// Sends a request and reads its cursor to the end, without looking at the documents.
    fn drain(&mut self, request: &[u8], collection: &str) -> Result<(), String> {
        let mut id = self.ask(request)?;
        while id != 0 {
            let more = doc! {
                "getMore": id, "collection": collection, "batchSize": 10_000, "$db": DATABASE
            };
            id = self.ask(&frame(more.as_doc()))?;
        }
        Ok(())
    }

    /// Sends a request; returns the id of the reply's cursor, or 0.
    fn ask(&mut self, request: &[u8]) -> Result<i64, String> {
        let reply = self.connection.call(request).map_err(|error| error.to_string())?;
        let reply = Doc::trusted(reply.get(BODY_AT..).unwrap_or(&[]));
        if let Some(why) = complaint(reply) {
            return Err(format!("{why:.600}"));
        }
        match reply.get("cursor") {
            Value::Doc(cursor) => Ok(integer(cursor.get("id")).unwrap_or(0)),
            _ => Ok(0),
        }
    }
}

/// The turn with the median time.
fn median(turns: &[Turn]) -> Turn {
    let mut turns = turns.to_vec();
    turns.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    turns[turns.len() / 2]
}

fn head(counts: bool) -> Vec<String> {
    let names = [
        "operation",
        "old ms",
        "new ms",
        "ratio",
        "CPU",
        "MongoDB",
        "CPU",
        "target",
        "old MB",
        "new MB",
    ];
    let more = counts.then_some("instructions a document");
    names.into_iter().chain(more).map(str::to_owned).collect()
}

fn cells(row: &Row, sides: &[Turn]) -> Vec<String> {
    let new = sides[sides.len() - 1];
    let old = (sides.len() > 1).then(|| sides[0]);
    let ratio = old.map(|old| (old.seconds / new.seconds, old.cpu_s / new.cpu_s));
    let to_mongodb = ratio.zip(row.mongodb).map(|(own, by)| (own.0 * by.0, own.1 * by.1));
    let text = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
    };
    let mut cells = vec![
        row.name.to_owned(),
        text(old.map(|old| old.seconds * 1e3), 0),
        text(Some(new.seconds * 1e3), 0),
        text(ratio.map(|ratio| ratio.0), 2),
        text(ratio.map(|ratio| ratio.1), 2),
        text(to_mongodb.map(|ratio| ratio.0), 2),
        text(to_mongodb.map(|ratio| ratio.1), 2),
        text(Some(row.aim), 1),
        text(old.map(|old| old.resident as f64 / MEGABYTE), 0),
        text(Some(new.resident as f64 / MEGABYTE), 0),
    ];
    cells.extend(new.instructions.map(|count| format!("{count:.0}")));
    cells
}
