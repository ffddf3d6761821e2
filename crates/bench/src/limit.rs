//! `nagi-bench limit`: measures how close a point read and an insert come to a bare echo on this machine.
//!
//! In each round, for each number of connections, echo (epoll), echo (threads), Nagi and the peers run one
//! after the other, so that noise of the machine affects all of them equally. The round with the median rate is
//! reported. The echo replies with frames of exactly the sizes of Nagi's replies to the read and the insert.
//!
//! With `--statistics true` something else is measured: see `statistics.rs`.
use crate::args::{Args, Outcome, Problem, failed, self_program};
use crate::client::{Connection, address, frame};
use crate::load::{self, Measured, Requests};
use crate::process::{Scratch, Server};
use crate::random::Random;
use crate::report::{self, Row};
use nagi_bson::{DocBuf, DocWriter, Value, doc};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

pub(crate) const DATABASE: &str = "nagi_bench";
const BASELINE: &str = "echo epoll";
/// FerretDB's point reads scan the collection, so it gets a small one; the other servers get all documents.
const FERRETDB_DOCUMENTS_MAX: i64 = 2_000;
const CONNECTIONS: &str = "1,16";
const OPERATIONS: &[&str] = &["read", "insert"];
/// Ten fields of a hundred bytes, as YCSB has: about 1.2 KB with names and `_id`.
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// Number of different documents that a connection inserts in turn, so that the engine's blocks do not compress
/// to almost nothing.
const INSERT_VARIANTS: i64 = 32;

struct Target {
    name: String,
    address: String,
    server: Option<Server>,
    documents: i64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents = documents(args)?;
    let plan = Plan::parse(args)?;
    let scratch = Scratch::new(args)?;
    let mut targets = Vec::new();
    if !args.flag("without-nagi")? {
        let server = Server::nagi(&args.nagi()?, &scratch.path.join("nagi"))?;
        let address = server.address.clone();
        targets.push(Target { name: "nagi".to_owned(), address, server: Some(server), documents });
    }
    for uri in args.all("uri") {
        let (name, uri) = uri.split_once('=').unwrap_or(("peer", uri));
        targets.push(Target {
            name: name.to_owned(),
            address: address(uri)?,
            server: None,
            documents,
        });
    }
    if let Some(path) = args.text("peer-ferretdb").filter(|path| !path.is_empty()) {
        let server = Server::ferretdb(Path::new(path), &scratch.path)?;
        targets.push(Target {
            name: "ferretdb 1.24".to_owned(),
            address: server.address.clone(),
            server: Some(server),
            documents: documents.min(FERRETDB_DOCUMENTS_MAX),
        });
    }
    let first = targets.first().ok_or_else(|| Problem::Usage("no server\n".to_owned()))?;
    for target in &targets {
        fill(&target.address, target.documents)?;
    }
    let sizes = Sizes::measure(&first.address)?;
    report::say(&format!(
        "{documents} documents of {} bytes; a read sends {} and gets {} bytes, an insert sends {} and gets {}\n",
        document(1, 1).as_bytes().len(),
        sizes.read.0,
        sizes.read.1,
        sizes.insert.0,
        sizes.insert.1,
    ));
    let rows = measure(&self_program()?, &targets, &sizes, &plan)?;
    report::say(&report::table(&rows, BASELINE));
    for target in &targets {
        let _ = Connection::open(&target.address)
            .and_then(|mut c| c.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc()));
    }
    summary(&rows);
    match args.text("json") {
        Some(path) => report::write_json(path, &rows, BASELINE),
        None => Ok(()),
    }
}

/// The number of documents to read.
pub(crate) fn documents(args: &Args) -> Outcome<i64> {
    args.number_in("documents", 100_000, 1..=1_000_000_000)
}

fn document(id: i64, variant: i64) -> DocBuf {
    let mut random = Random::new(variant as u64 ^ 0x5EED);
    let mut text = String::with_capacity(FIELD_BYTES);
    DocBuf::build(|w| {
        w.put("_id", id);
        for field in 0..FIELDS {
            text.clear();
            text.extend((0..FIELD_BYTES).map(|_| char::from(b'!' + random.below(94) as u8)));
            w.put(&format!("field{field}"), text.as_str());
        }
    })
}

/// Replaces the collection by this many documents.
pub(crate) fn fill(address: &str, documents: i64) -> Outcome {
    const BATCH: i64 = 1000;
    let mut connection = Connection::open(address)?;
    connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    for start in (0..documents).step_by(BATCH as usize) {
        let body = DocBuf::build(|w: &mut DocWriter<'_>| {
            w.put("insert", "docs");
            w.array("documents", |list| {
                for id in start..(start + BATCH).min(documents) {
                    list.push(Value::Doc(document(id, id).as_doc()));
                }
            });
            w.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
    }
    Ok(())
}

fn read_body(id: i64) -> DocBuf {
    doc! { "find": "docs", "filter": { "_id": id }, "limit": 1, "singleBatch": true, "$db": DATABASE }
}

fn insert_body(id: i64, variant: i64) -> DocBuf {
    let document = document(id, variant);
    DocBuf::build(|w| {
        w.put("insert", "written");
        w.array("documents", |list| list.push(Value::Doc(document.as_doc())));
        w.put("$db", DATABASE);
    })
}

/// The sizes in bytes of the request and the reply.
pub(crate) struct Sizes {
    pub(crate) read: (usize, usize),
    insert: (usize, usize),
}

impl Sizes {
    pub(crate) fn measure(address: &str) -> Outcome<Sizes> {
        let mut connection = Connection::open(address)?;
        let mut exchange = |body: DocBuf| -> Outcome<(usize, usize)> {
            connection.expect(body.as_doc())?; // an error is reported here instead of showing as an unexpected size
            let request = frame(body.as_doc());
            let reply = connection.call(&request).map_err(failed("measuring sizes"))?;
            Ok((request.len(), reply.len()))
        };
        let read = exchange(read_body(0))?;
        // Repeating the exchange would give a duplicate key error; an insert with another id gives the size of
        // a successful reply.
        connection.expect(insert_body(-1, 1).as_doc())?;
        let request = frame(insert_body(-2, 2).as_doc());
        let reply = connection.call(&request).map_err(failed("measuring sizes"))?;
        Ok(Sizes { read, insert: (request.len(), reply.len()) })
    }
}

/// Frames sent in turn, each with its `_id` patched in place.
struct Patched {
    frames: Vec<(Vec<u8>, usize)>,
    turn: usize,
    reply_bytes_min: usize,
    ids: Ids,
}

enum Ids {
    Random(Random, i64),
    Next(Arc<AtomicI64>),
    None,
}

impl Patched {
    fn new(bodies: Vec<DocBuf>, reply_bytes_min: usize, ids: Ids) -> Patched {
        let marker = MARK.to_le_bytes();
        let patchable = |body: DocBuf| {
            let frame = frame(body.as_doc());
            let id_at = frame.windows(8).position(|bytes| bytes == marker).unwrap_or(0);
            (frame, id_at)
        };
        let frames = bodies.into_iter().map(patchable).collect();
        Patched { frames, turn: 0, reply_bytes_min, ids }
    }
}

/// Placeholder for the `_id`.
const MARK: i64 = 0x0123_4567_89AB_CDEF;

impl Requests for Patched {
    fn next(&mut self) -> &[u8] {
        let id = match &mut self.ids {
            Ids::Random(random, documents) => random.below(*documents as u64) as i64,
            Ids::Next(next) => next.fetch_add(1, Ordering::Relaxed),
            Ids::None => return &self.frames[0].0,
        };
        self.turn = (self.turn + 1) % self.frames.len();
        let (frame, id_at) = &mut self.frames[self.turn];
        frame[*id_at..*id_at + 8].copy_from_slice(&id.to_le_bytes());
        frame
    }

    fn good(&self, reply: &[u8]) -> bool {
        // The reply for a missing document is far shorter; a write error makes the reply longer than usual.
        match self.ids {
            Ids::Next(_) => !reply.windows(11).any(|bytes| bytes == b"writeErrors"),
            _ => reply.len() >= self.reply_bytes_min,
        }
    }
}

/// The operations to measure, the number of rounds and their duration.
pub(crate) struct Plan {
    operations: Vec<&'static str>,
    pub(crate) connections: Vec<usize>,
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

impl Plan {
    pub(crate) fn parse(args: &Args) -> Outcome<Plan> {
        Ok(Plan {
            operations: args.words("operations", OPERATIONS)?,
            connections: args.numbers_in("connections", CONNECTIONS, 1..=10_000)?,
            rounds: args.number_in("rounds", 3, 1..=100)?,
            time: Duration::from_secs_f64(args.number_in("seconds", 5.0, 0.05..=3600.0)?),
        })
    }
}

fn measure(program: &Path, targets: &[Target], sizes: &Sizes, plan: &Plan) -> Outcome<Vec<Row>> {
    let time = plan.time;
    let next_id = Arc::new(AtomicI64::new(0));
    let mut rows = Vec::new();
    for &operation in &plan.operations {
        let size = if operation == "read" { sizes.read } else { sizes.insert };
        let echoes = [("echo epoll", "epoll"), ("echo threads", "threads")];
        for &connections in &plan.connections {
            let mut seen: Vec<Vec<Measured>> = vec![Vec::new(); echoes.len() + targets.len()];
            for _ in 0..plan.rounds {
                for (index, (_, mode)) in echoes.iter().enumerate() {
                    seen[index].push(echo(program, mode, size, connections, time)?);
                }
                for (index, target) in targets.iter().enumerate() {
                    let senders = (0..connections)
                        .map(|n| sender(operation, n as u64, target.documents, size.1, &next_id))
                        .collect();
                    let cpu = || target.server.as_ref().map(Server::cpu_us);
                    let measured = load::run(&target.address, senders, time, &cpu)?;
                    seen[echoes.len() + index].push(measured);
                }
            }
            let names = echoes.iter().map(|(name, _)| (*name).to_owned());
            let names = names.chain(targets.iter().map(|t| t.name.clone()));
            for (server, runs) in names.zip(seen) {
                rows.push(Row { server, operation, connections, measured: median(runs) });
            }
        }
    }
    Ok(rows)
}

fn sender(
    operation: &str,
    n: u64,
    documents: i64,
    reply_bytes: usize,
    next_id: &Arc<AtomicI64>,
) -> Box<dyn Requests> {
    if operation == "read" {
        return reader(n, documents, reply_bytes);
    }
    let bodies = (0..INSERT_VARIANTS).map(|v| insert_body(MARK, n as i64 * 1000 + v)).collect();
    Box::new(Patched::new(bodies, 0, Ids::Next(Arc::clone(next_id))))
}

/// Point reads of random documents; `n` is the number of the connection.
pub(crate) fn reader(n: u64, documents: i64, reply_bytes: usize) -> Box<dyn Requests> {
    // Half the usual size is enough to distinguish a document from an empty batch.
    let ids = Ids::Random(Random::new(n + 1), documents);
    Box::new(Patched::new(vec![read_body(MARK)], reply_bytes / 2, ids))
}

/// Frames for an echo, for each of the connections.
pub(crate) fn echoed(
    (request, reply): (usize, usize),
    connections: usize,
) -> Vec<Box<dyn Requests>> {
    let mut bytes = vec![0; request];
    bytes[..4].copy_from_slice(&(request as u32).to_le_bytes());
    let sender = |_| -> Box<dyn Requests> {
        let frames = vec![(bytes.clone(), 0)];
        Box::new(Patched { frames, turn: 0, reply_bytes_min: reply, ids: Ids::None })
    };
    (0..connections).map(sender).collect()
}

fn echo(
    program: &Path,
    mode: &str,
    size: (usize, usize),
    connections: usize,
    time: Duration,
) -> Outcome<Measured> {
    let server = Server::echo(program, mode, size.1)?;
    load::run(&server.address, echoed(size, connections), time, &|| Some(server.cpu_us()))
}

/// The run with the median rate.
pub(crate) fn median(mut runs: Vec<Measured>) -> Measured {
    runs.sort_by(|a, b| a.ops_per_second().total_cmp(&b.ops_per_second()));
    let middle = runs.len() / 2;
    runs.swap_remove(middle)
}

fn summary(rows: &[Row]) {
    let share = |operation: &str| {
        let row = rows
            .iter()
            .find(|r| r.server == "nagi" && r.operation == operation && r.connections == 16)?;
        Some(report::ratio(rows, row, BASELINE)? * 100.0)
    };
    if let (Some(read), Some(insert)) = (share("read"), share("insert")) {
        report::say(&format!(
            "limit: at 16 connections a point read reaches {read:.0} % of the echo (target 65), \
             an insert {insert:.0} % (target 45)\n"
        ));
    }
}
