//! `nagi-bench change-log`: what the change log of a replica set member costs.
//!
//! Two servers do the same work in turns, one of them a member of a replica set of its own, which logs every change:
//! inserts one by one, inserts in batches, and updates of many documents. Compared are the server's CPU time per
//! document, over all rounds because it is counted in ticks of 10 ms, and the bytes on disk at the end. One client,
//! `w: 1`.
use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, Value, doc};

use crate::args::{Args, Outcome, failed};
use crate::client::{BODY_AT, Connection, frame, is_one};
use crate::process::{Scratch, Server, settled_disk_bytes};
use crate::random::Random;
use crate::report;

const DATABASE: &str = "nagi_log";
/// Documents of one insert in batches.
const BATCH: i64 = 500;
/// Hexadecimal digits that fill a document to about one kilobyte.
const PAD: usize = 850;
const WRITABLE_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Insert,
    InsertMany,
    UpdateMany,
}

const WORK: [(Work, &str); 3] = [
    (Work::Insert, "insert of 1 KB"),
    (Work::InsertMany, "insertMany, each of 500"),
    (Work::UpdateMany, "updateMany, each document"),
];

/// A server and what it was measured to need.
struct Side {
    name: &'static str,
    server: Server,
    connection: Connection,
    data: std::path::PathBuf,
    /// The number of the next document.
    next: i64,
    /// Microseconds of CPU time, and documents, by kind of work.
    cost: [(u64, i64); WORK.len()],
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: i64 = args.number_in("documents", 100_000, 5_000..=100_000_000)?;
    let rounds: i64 = args.number_in("rounds", 5, 1..=100)?;
    let scratch = Scratch::new(args)?;
    let mut sides = Vec::new();
    let member: &[&str] = &["--replSet", "rs0", "--initiate"];
    for (name, options) in [("without the log", &[] as &[&str]), ("with the log", member)] {
        let data = scratch.path.join(if options.is_empty() { "plain" } else { "member" });
        let server = Server::nagi_with(&args.nagi()?, &data, options)?;
        let mut connection = Connection::open(&server.address)?;
        wait_until_writable(&mut connection)?;
        let cost = [(0, 0); WORK.len()];
        sides.push(Side { name, server, connection, data, next: 0, cost });
    }
    for round in 0..rounds {
        for side in &mut sides {
            // All rounds do the same, with other numbers.
            let mut random = Random::new(round as u64 + 1);
            side.round(documents / rounds, &mut random)?;
        }
    }
    report::say(&report::columns(&table(&sides)));
    for side in sides {
        side.server.stop(side.connection)?;
    }
    Ok(())
}

fn wait_until_writable(connection: &mut Connection) -> Outcome {
    let until = Instant::now() + WRITABLE_WITHIN;
    loop {
        let hello = connection.expect(doc! { "hello": 1, "$db": "admin" }.as_doc())?;
        if hello.get("isWritablePrimary") == Value::Bool(true) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(crate::args::Problem::Failed("the member does not become primary".into()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn document(id: i64, random: &mut Random) -> DocBuf {
    let mut pad = String::with_capacity(PAD + 16);
    while pad.len() < PAD {
        pad.push_str(&format!("{:016x}", random.below(u64::MAX)));
    }
    doc! {
        "_id": id,
        "a": (id % 10),
        "s": format!("x{id:06}").as_str(),
        "d": { "k": id, "t": "abc" },
        "arr": [1, 2, 3],
        "pad": pad.as_str()
    }
}

impl Side {
    /// Does all kinds of work once with so many documents.
    fn round(&mut self, documents: i64, random: &mut Random) -> Outcome {
        for (at, (work, _)) in WORK.iter().enumerate() {
            let frames = self.frames(*work, documents, random);
            let before = self.server.cpu_us();
            for frame in &frames {
                let reply = self.connection.call(frame).map_err(failed("asking the server"))?;
                let reply = DocBuf::from_bytes(reply.get(BODY_AT..).unwrap_or(&[]).to_vec())
                    .map_err(failed("a reply"))?;
                if !is_one(reply.get("ok")) || !reply.get("writeErrors").is_missing() {
                    return Err(crate::args::Problem::Failed(format!("{:?}", reply.as_doc())));
                }
            }
            self.cost[at].0 += self.server.cpu_us() - before;
            self.cost[at].1 += documents;
        }
        Ok(())
    }

    /// The requests, which are built before the time is taken.
    fn frames(&mut self, work: Work, documents: i64, random: &mut Random) -> Vec<Vec<u8>> {
        let concern = doc! { "w": 1 };
        if work == Work::UpdateMany {
            // The documents that were inserted last.
            let update = doc! {
                "q": { "_id": { "$gte": (self.next - documents) } },
                "u": { "$inc": { "n": 1 } },
                "multi": true
            };
            let request = doc! {
                "update": "docs",
                "updates": [(update.as_doc())],
                "writeConcern": (concern.as_doc()),
                "$db": DATABASE
            };
            return vec![frame(request.as_doc())];
        }
        let each = if work == Work::Insert { 1 } else { BATCH };
        let mut frames = Vec::new();
        let end = self.next + documents;
        while self.next < end {
            let count = each.min(end - self.next);
            let request = DocBuf::build(|w| {
                w.put("insert", "docs");
                w.array("documents", |list| {
                    for id in self.next..self.next + count {
                        list.push_doc(document(id, random).as_doc());
                    }
                });
                w.put("writeConcern", concern.as_doc());
                w.put("$db", DATABASE);
            });
            frames.push(frame(request.as_doc()));
            self.next += count;
        }
        frames
    }
}

fn table(sides: &[Side]) -> Vec<Vec<String>> {
    let mut head = vec!["us of CPU".to_owned()];
    head.extend(sides.iter().map(|side| side.name.to_owned()));
    head.push("ratio".to_owned());
    let mut rows = vec![head];
    let mut row = |name: &str, values: Vec<f64>, digits: usize| {
        let mut cells = vec![name.to_owned()];
        cells.extend(values.iter().map(|value| format!("{value:.digits$}")));
        if let [without, with] = values[..] {
            cells.push(format!("{:.2}", with / without));
        }
        rows.push(cells);
    };
    for (at, (_, name)) in WORK.iter().enumerate() {
        let each = |side: &Side| side.cost[at].0 as f64 / side.cost[at].1.max(1) as f64;
        row(name, sides.iter().map(each).collect(), 1);
    }
    let disk = |side: &Side| settled_disk_bytes(&side.data) as f64 / f64::from(1 << 20);
    row("MB on disk", sides.iter().map(disk).collect(), 1);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_a_kilobyte() {
        let size = document(7, &mut Random::new(1)).as_bytes().len();
        assert!((950..1100).contains(&size), "{size}");
    }
}
