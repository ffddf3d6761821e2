//! `nagi-bench spill`: runs a sort and a group of far more data than the available memory.
//!
//! Five million documents of a kilobyte are sorted by a number unrelated to their order, and grouped into as
//! many groups. The server runs in a memory cgroup of 512 MiB with a limit of 100 MB per operation. Every
//! document of the sort is checked; of the groups, their count and sums are checked. Afterwards the disk usage
//! must be the same as before. Without `allowDiskUse` both must be refused (error 292).
use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, integer};
use crate::process::{Scratch, settled_disk_bytes};
use crate::progress::Progress;
use crate::random::Random;
use crate::report;
use crate::resident::{Resident, peak};
use crate::working_set::limits::{Limits, possible};
use nagi_bson::json::JsonWriter;
use nagi_bson::{DocBuf, Value, doc};
use std::fs;
use std::time::{Duration, Instant};

const DATABASE: &str = "nagi_spill";
const COLLECTION: &str = "big";
const BATCH: u64 = 1000;
const CHARACTERS: usize = 960;
/// Texts repeat after this many documents; a compressor sees only some of them at once.
const TEXTS: u64 = 4096;
const SILENCE_MAX: Duration = Duration::from_secs(3600);
/// The error code of a sort or group that needs the disk but may not use it.
const NO_DISK: i64 = 292;

/// One finished operation.
struct Done {
    name: &'static str,
    seconds: f64,
    count: u64,
    resident: u64,
    disk: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: u64 = args.number_in("documents", 5_000_000, 1000..=100_000_000)?;
    let memory: u64 = args.number_in("memory-megabytes", 512, 64..=1 << 20)?;
    let cache: f64 = args.number_in("cache-gigabytes", 0.25, 0.05..=10_000.0)?;
    if !possible() {
        return Err(Problem::Usage("spill needs root: it makes a memory cgroup\n".to_owned()));
    }
    let scratch = Scratch::new(args)?;
    let cache = cache.to_string();
    let mut more = vec!["--wiredTigerCacheSizeGB", cache.as_str()];
    more.extend(args.all("server-option"));
    // Disk space for the data and the runs of the sort, and for both once more while they are merged.
    let disk = documents * 1024 * 4 + (2 << 30);
    let limits = Limits::start(&args.nagi()?, &scratch.path, "ext4", disk, memory << 20, &more)?;
    let data = scratch.path.join("limited").join("data");
    let mut connection = Connection::open(limits.address())?;
    connection.be_patient(SILENCE_MAX)?;
    let mut done = Vec::new();
    let works: [(&'static str, Work<'_>); 3] = [
        ("load", &|c| load(c, documents)),
        ("sort", &|c| sort(c, documents)),
        ("group", &|c| group(c, documents)),
    ];
    report::say(&format!("spill: {documents} documents of 1 KB, {memory} MiB for the server\n"));
    for (name, work) in works {
        let resident = Resident::watch(limits.id());
        let begin = Instant::now();
        let count = work(&mut connection)?;
        let seconds = begin.elapsed().as_secs_f64();
        let resident = peak(&resident.finish());
        done.push(Done { name, seconds, count, resident, disk: settled_disk_bytes(&data) });
    }
    refused(&mut connection)?;
    report::say(&report::columns(&table(&done)));
    if let Some(path) = args.text("json") {
        fs::write(path, json(&done)).map_err(failed(path))?;
    }
    drop(connection);
    limits.end()?;
    match done.iter().all(|one| one.disk <= done[0].disk + done[0].disk / 10) {
        true => Ok(()),
        false => Err(Problem::Failed("temporary files are left".to_owned())),
    }
}

type Work<'w> = &'w dyn Fn(&mut Connection) -> Outcome<u64>;

/// A unique number that is unrelated to the order of `id`.
fn scattered(id: u64) -> i64 {
    (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) as i64
}

fn load(connection: &mut Connection, documents: u64) -> Outcome<u64> {
    let texts: Vec<String> = (0..TEXTS)
        .map(|seed| {
            let mut random = Random::new(seed + 1);
            (0..CHARACTERS).map(|_| char::from(b'0' + random.below(64) as u8)).collect()
        })
        .collect();
    let mut progress = Progress::new("load", documents);
    for start in (0..documents).step_by(BATCH as usize) {
        let end = (start + BATCH).min(documents);
        let body = DocBuf::build(|out| {
            out.put("insert", COLLECTION);
            out.array("documents", |list| {
                for id in start..end {
                    let text = texts[(id % TEXTS) as usize].as_str();
                    let k = scattered(id);
                    let one = doc! { "_id": (id as i64), "k": k, "text": text };
                    list.push(Value::Doc(one.as_doc()));
                }
            });
            out.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
        progress.at(end);
    }
    Ok(documents)
}

fn sort(connection: &mut Connection, documents: u64) -> Outcome<u64> {
    let command = doc! {
        "find": COLLECTION, "sort": { "k": 1 }, "allowDiskUse": true, "$db": DATABASE
    };
    let mut progress = Progress::new("sort", documents);
    let (mut last, mut seen, mut ids) = (i64::MIN, 0, 0_u64);
    connection.each(command.as_doc(), COLLECTION, |doc| {
        let id = integer(doc.get("_id")).unwrap_or(-1) as u64;
        let k = integer(doc.get("k")).unwrap_or(i64::MIN);
        let whole = doc.get("text").as_str().is_some_and(|text| text.len() == CHARACTERS);
        if k <= last || k != scattered(id) || !whole {
            return Err(Problem::Failed(format!("document {id} is wrong, or out of its place")));
        }
        (last, seen, ids) = (k, seen + 1, ids + id);
        progress.at(seen);
        Ok(())
    })?;
    sum_is(ids, seen, documents)
}

/// As many groups as documents, each with its text: they cannot all be kept in memory.
fn group(connection: &mut Connection, documents: u64) -> Outcome<u64> {
    let command = doc! {
        "aggregate": COLLECTION,
        "pipeline": [
            { "$group": { "_id": "$k", "n": { "$sum": 1 }, "id": { "$first": "$_id" },
                          "text": { "$first": "$text" } } },
            { "$group": { "_id": null, "groups": { "$sum": 1 }, "n": { "$sum": "$n" },
                          "ids": { "$sum": "$id" }, "length": { "$sum": { "$strLenBytes": "$text" } } } }
        ],
        "cursor": {}, "allowDiskUse": true, "$db": DATABASE
    };
    let (mut groups, mut ids) = (0, 0);
    connection.each(command.as_doc(), COLLECTION, |doc| {
        let number = |name: &str| integer(doc.get(name)).unwrap_or(-1) as u64;
        (groups, ids) = (number("groups"), number("ids"));
        match number("n") == documents && number("length") == documents * CHARACTERS as u64 {
            true => Ok(()),
            false => Err(Problem::Failed(format!("wrong sums: {doc:?}"))),
        }
    })?;
    sum_is(ids, groups, documents)
}

fn sum_is(ids: u64, count: u64, documents: u64) -> Outcome<u64> {
    match count == documents && ids == documents * (documents - 1) / 2 {
        true => Ok(count),
        false => Err(Problem::Failed(format!("{count} of {documents}, their ids sum to {ids}"))),
    }
}

/// Runs both again without permission to use the disk.
fn refused(connection: &mut Connection) -> Outcome {
    let sort = doc! {
        "find": COLLECTION, "sort": { "k": 1 }, "allowDiskUse": false, "$db": DATABASE
    };
    let group = doc! {
        "aggregate": COLLECTION,
        "pipeline": [{ "$group": { "_id": "$k", "text": { "$first": "$text" } } }],
        "cursor": {}, "allowDiskUse": false, "$db": DATABASE
    };
    for command in [sort, group] {
        let reply = connection.command(command.as_doc()).map_err(failed("without the disk"))?;
        if integer(reply.get("code")) != Some(NO_DISK) {
            return Err(Problem::Failed(format!(
                "not refused with {NO_DISK}: {:?}",
                reply.as_doc()
            )));
        }
    }
    Ok(())
}

fn table(done: &[Done]) -> Vec<Vec<String>> {
    let head =
        ["operation", "documents", "seconds", "documents/s", "resident MiB", "disk MB after"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in done {
        rows.push(vec![
            one.name.to_owned(),
            one.count.to_string(),
            format!("{:.1}", one.seconds),
            format!("{:.0}", one.count as f64 / one.seconds.max(1e-9)),
            (one.resident >> 20).to_string(),
            (one.disk / 1_000_000).to_string(),
        ]);
    }
    rows
}

fn json(done: &[Done]) -> String {
    let put = |w: &mut JsonWriter<'_>, one: &Done| {
        w.key("operation").string(one.name);
        w.key("documents").literal(one.count);
        w.key("seconds").fixed(one.seconds, 3);
        w.key("resident_bytes").literal(one.resident);
        w.key("disk_bytes").literal(one.disk);
    };
    JsonWriter::file(|w| w.array(|w| done.iter().for_each(|one| w.object(|w| put(w, one)))))
}
