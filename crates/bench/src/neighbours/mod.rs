//! `nagi bench neighbours`: what a scan of everything does to another process in the same memory.
//!
//! The experiment: a machine of 4 GB, another process with 2 GB of heap, a database of 10 GB that is
//! scanned without an index. A server that reads its files through `mmap` had 1.3 GB of the neighbour
//! swapped out. Here a memory cgroup is the machine. Documents are inserted, the server is started anew
//! with nothing in the page cache, the neighbour walks over its memory, the scan runs, the neighbour
//! walks again. Wanted: no major fault and no swapped byte of the neighbour, little page cache.
mod group;
mod holder;
mod results;
mod watch;

use crate::args::{Args, Outcome, Problem, failed};
use crate::client::{Connection, integer};
use crate::process::{Scratch, Server, disk_bytes, settled_disk_bytes};
use crate::progress::Progress;
use crate::random::Random;
use crate::report;
use crate::working_set::limits;
use group::Group;
pub(crate) use holder::serve;
use nagi_bson::{DocBuf, Value, doc};
use results::{Phase, Run};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use watch::{Watch, read_bytes};

const DATABASE: &str = "nagi_neighbours";
const COLLECTION: &str = "big";
/// Documents in one insert.
const BATCH: u64 = 10;
/// A scan of ten gigabytes answers when it is done.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
/// 64 characters: six bits of chance each, and no two stretches alike.
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

struct Plan {
    documents: u64,
    characters: usize,
    random: bool,
    memory_megabytes: u64,
    neighbour_megabytes: u64,
    cache_gigabytes: f64,
}

impl Plan {
    fn parse(args: &Args) -> Outcome<Plan> {
        if args.text("uri").is_some() {
            return Err(Problem::Usage(
                "--uri is not possible here: the server must start inside the cgroup\n".to_owned(),
            ));
        }
        let plan = Plan {
            documents: args.number("documents", 10_000)?,
            characters: args.number("characters", 1_000_000)?,
            random: match args.text("text") {
                None | Some("random") => true,
                Some("digits") => false,
                Some(_) => {
                    return Err(Problem::Usage("`--text` is digits or random\n".to_owned()));
                }
            },
            memory_megabytes: args.number("memory-megabytes", 4096)?,
            neighbour_megabytes: args.number("neighbour-megabytes", 2048)?,
            cache_gigabytes: args.number("cache-gigabytes", 1.0)?,
        };
        if !(1..=10_000_000).contains(&plan.documents)
            || !(1..=1_600_000).contains(&plan.characters)
            || !(64..=1 << 20).contains(&plan.memory_megabytes)
            || !(1..plan.memory_megabytes).contains(&plan.neighbour_megabytes)
            || !(0.05..=10_000.0).contains(&plan.cache_gigabytes)
        {
            return Err(Problem::Usage("a number is out of range\n".to_owned()));
        }
        Ok(plan)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let plan = Plan::parse(args)?;
    if !limits::possible() {
        return Err(Problem::Usage(
            "neighbours needs root: it makes a memory cgroup and puts processes into it\n"
                .to_owned(),
        ));
    }
    let scratch = Scratch::new(args)?;
    let folder = scratch.path.join("neighbours");
    let _ = fs::remove_dir_all(&folder);
    let done = measure(args, &plan, &scratch.path, &folder);
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::remove_file(folder.with_extension("log"));
    let run = done?;
    report::say(&report::columns(&results::table(&run)));
    report::say(&results::summary(&run));
    if let Some(path) = args.text("html") {
        results::page(&run).write(path)?;
    }
    if let Some(path) = args.text("json") {
        fs::write(path, results::json(&run)).map_err(failed(path))?;
    }
    let missed = run.missed();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Problem::Failed(format!("neighbours: {}", missed.join(", ")))),
    }
}

fn measure(args: &Args, plan: &Plan, scratch: &Path, folder: &Path) -> Outcome<Run> {
    let cache = plan.cache_gigabytes.to_string();
    let mut more = vec!["--wiredTigerCacheSizeGB", cache.as_str()];
    more.extend(args.all("server-option"));
    let program = args.nagi()?;
    // Before the server, so that it is dropped after it.
    let group = Group::start(scratch, plan.memory_megabytes, plan.neighbour_megabytes)?;
    let mut run = Run::new(plan, &group);
    report::say(&run.head());
    group.walk()?;
    let begin = Instant::now();

    let server = group.server(&program, folder, &more)?;
    let mut connection = Connection::open(&server.address)?;
    connection.be_patient(SILENCE_MAX)?;
    run.phase("load", begin, &group, server.id(), || {
        insert(&mut connection, plan)?;
        connection.expect(doc! { "fsync": 1, "$db": "admin" }.as_doc())?;
        settled_disk_bytes(folder);
        Ok(())
    })?;
    run.log();
    server.stop(connection)?;
    forget(folder)?;

    let server = group.server(&program, folder, &more)?;
    let mut connection = Connection::open(&server.address)?;
    connection.be_patient(SILENCE_MAX)?;
    run.disk_bytes = disk_bytes(folder);
    run.walk_before = run.phase("walk before", begin, &group, server.id(), || group.walk())?;
    run.log();
    let read = read_so_far(&server);
    run.phase("scan", begin, &group, server.id(), || scan(&mut connection))?;
    run.read_bytes = read_so_far(&server).zip(read).map(|(now, then)| now.saturating_sub(then));
    run.log();
    run.walk_after = run.phase("walk after", begin, &group, server.id(), || group.walk())?;
    run.log();
    server.stop(connection)?;
    Ok(run)
}

impl Run {
    /// Does something and watches meanwhile.
    fn phase<T>(
        &mut self,
        name: &'static str,
        begin: Instant,
        group: &Group,
        server: u32,
        work: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        let watch = Watch::start(begin, group, server);
        let since = Instant::now();
        let done = work();
        let seconds = since.elapsed().as_secs_f64();
        let samples = watch.finish();
        let done = done?;
        if samples.len() < 2 {
            return Err(Problem::Failed(format!("{name}: the neighbour or its cgroup is gone")));
        }
        self.phases.push(Phase { name, seconds, samples });
        Ok(done)
    }

    /// The phase that has just ended, for those who watch.
    fn log(&self) {
        if let Some(phase) = self.phases.last() {
            report::say(&results::line(phase));
        }
    }
}

fn read_so_far(server: &Server) -> Option<u64> {
    read_bytes(&fs::read_to_string(format!("/proc/{}/io", server.id())).ok()?)
}

fn insert(connection: &mut Connection, plan: &Plan) -> Outcome {
    let mut random = Random::new(3);
    let mut progress = Progress::new("load", plan.documents);
    for start in (0..plan.documents).step_by(BATCH as usize) {
        let end = (start + BATCH).min(plan.documents);
        let body = DocBuf::build(|out| {
            out.put("insert", COLLECTION);
            out.array("documents", |list| {
                for id in start..end {
                    let text = text(plan, &mut random);
                    let one = doc! { "_id": (id as i64), "text": (text.as_str()) };
                    list.push(Value::Doc(one.as_doc()));
                }
            });
            out.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
        progress.at(end);
    }
    Ok(())
}

fn text(plan: &Plan, random: &mut Random) -> String {
    if !plan.random {
        let mut text = "0123456789".repeat(plan.characters / 10 + 1);
        text.truncate(plan.characters);
        return text;
    }
    let mut text = String::with_capacity(plan.characters + 8);
    while text.len() < plan.characters {
        let mut bits = random.next();
        for _ in 0..8 {
            text.push(ALPHABET[(bits & 63) as usize].into());
            bits >>= 6;
        }
    }
    text.truncate(plan.characters);
    text
}

/// A filter that nothing matches, on a field without an index: every document is looked at.
fn scan(connection: &mut Connection) -> Outcome {
    let find = doc! {
        "find": COLLECTION, "filter": { "other": "nothing" }, "$db": DATABASE
    };
    let mut reply = connection.expect(find.as_doc())?;
    loop {
        let Value::Doc(cursor) = reply.get("cursor") else {
            return Err(Problem::Failed("a reply without a cursor".to_owned()));
        };
        for batch in ["firstBatch", "nextBatch"] {
            if matches!(cursor.get(batch), Value::Array(docs) if docs.count() > 0) {
                return Err(Problem::Failed("the scan found something".to_owned()));
            }
        }
        let id = integer(cursor.get("id")).unwrap_or(0);
        if id == 0 {
            return Ok(());
        }
        let more = doc! { "getMore": (id), "collection": COLLECTION, "$db": DATABASE };
        reply = connection.expect(more.as_doc())?;
    }
}

/// Drops the folder's files from the page cache: what the load left there is no part of the scan.
fn forget(folder: &Path) -> Outcome {
    let doing = "dropping the data from the page cache";
    for entry in fs::read_dir(folder).map_err(failed(doing))? {
        let entry = entry.map_err(failed(doing))?;
        let kind = entry.file_type().map_err(failed(doing))?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            let file = fs::File::open(entry.path()).map_err(failed(doing))?;
            // Only clean pages can be dropped.
            file.sync_all().map_err(failed(doing))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(failed(doing))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: &[&str]) -> Outcome<Plan> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        Plan::parse(&Args::parse(&args)?)
    }

    #[test]
    fn arguments_have_defaults_and_bounds() {
        let usual = plan(&[]).unwrap();
        assert_eq!((usual.documents, usual.characters, usual.random), (10_000, 1_000_000, true));
        assert_eq!((usual.memory_megabytes, usual.neighbour_megabytes), (4096, 2048));
        for wrong in [
            ["--documents", "0"],
            ["--characters", "1600001"],
            ["--text", "words"],
            ["--memory-megabytes", "2048"],
            ["--neighbour-megabytes", "4096"],
            ["--cache-gigabytes", "0"],
        ] {
            assert!(matches!(plan(&wrong), Err(Problem::Usage(_))), "{wrong:?}");
        }
        let uri = plan(&["--uri", "mongodb://a:1"]).err();
        assert!(matches!(uri, Some(Problem::Usage(text)) if text.contains("not possible")));
    }

    #[test]
    fn texts_have_their_length() {
        for kind in ["digits", "random"] {
            let plan = plan(&["--text", kind, "--characters", "1003"]).unwrap();
            assert_eq!(text(&plan, &mut Random::new(1)).len(), 1003);
        }
    }
}
