//! `nagi-bench neighbours`: measures how a full scan affects another process in the same memory.
//!
//! This repeats an experiment: a machine of 4 GB, another process with 2 GB of heap, and a database of 10 GB
//! that is scanned without an index. With a server that reads its files through `mmap`, 1.3 GB of the neighbour
//! was swapped out. Here a memory cgroup takes the role of the machine. The steps:
//!
//! 1. Documents are inserted, and the server is restarted with an empty page cache.
//! 2. The neighbour reads all its memory.
//! 3. The scan runs.
//! 4. The neighbour reads all its memory again.
//!
//! Expected: no major fault and no swapped byte of the neighbour, and little page cache.
mod group;
mod holder;
mod results;
mod watch;
mod work;

use crate::args::{Args, Outcome, Problem};
use crate::client::Connection;
use crate::process::{Scratch, settled_disk_bytes};
use crate::report;
use crate::working_set::limits;
use group::Group;
pub(crate) use holder::serve;
use nagi_bson::doc;
use nagi_proc::Process;
use results::{Phase, Run};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use watch::Watch;
use work::{forget, insert, scan};

/// Read timeout: a scan of ten gigabytes replies only when it has finished.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
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
        let memory_megabytes: u64 = args.number_in("memory-megabytes", 4096, 64..=1 << 20)?;
        Ok(Plan {
            documents: args.number_in("documents", 10_000, 1..=10_000_000)?,
            characters: args.number_in("characters", 1_000_000, 1..=1_600_000)?,
            random: args.word("text", "random", &["digits", "random"])? == "random",
            memory_megabytes,
            neighbour_megabytes: args.number_in(
                "neighbour-megabytes",
                2048,
                1..=memory_megabytes - 1,
            )?,
            cache_gigabytes: args.number_in("cache-gigabytes", 1.0, 0.05..=10_000.0)?,
        })
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
    report::write(args, || results::page(&run), || results::json(&run))?;
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
    // Created before the server, so that it is dropped after the server.
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
    // The start writes and removes data of the write-ahead log; this is not part of the scan.
    run.disk_bytes = settled_disk_bytes(folder);
    forget(folder)?;
    run.walk_before = run.phase("walk before", begin, &group, server.id(), || group.walk())?;
    run.log();
    let process = Process::Id(server.id());
    let read = process.read_bytes();
    run.phase("scan", begin, &group, server.id(), || scan(&mut connection))?;
    run.read_bytes = process.read_bytes().zip(read).map(|(now, then)| now.saturating_sub(then));
    run.log();
    run.walk_after = run.phase("walk after", begin, &group, server.id(), || group.walk())?;
    run.log();
    server.stop(connection)?;
    Ok(run)
}

impl Run {
    /// Runs an operation and records samples meanwhile.
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

    /// Prints the line of the phase that has just finished.
    fn log(&self) {
        if let Some(phase) = self.phases.last() {
            report::say(&results::line(phase));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: &[&str]) -> Outcome<Plan> {
        Plan::parse(&crate::table::args("neighbours", args)?)
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
        assert!(
            matches!(uri, Some(Problem::Usage(text)) if text.contains("unknown option `--uri`"))
        );
    }
}
