//! `nagi-bench disk`: measures the disk itself, without any cache, as `fio` with psync does.
//!
//! It uses one unnamed file of incompressible bytes and direct I/O. Measured are random reads of 4 to 32 KB by
//! one thread (the latency of a read) and by many threads (the throughput of the disk), synced writes one by
//! one (the time a commit waits for), and sequential reads and writes. A store cannot be faster than these
//! figures.
use crate::args::{Args, Outcome, Problem, failed};
use crate::histogram::Histogram;
use crate::html::Page;
use crate::process::Scratch;
use crate::progress::Progress;
use crate::random::Random;
use crate::report::{self, put_quantiles};
use nagi_bson::json::JsonWriter;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Direct I/O requires addresses, offsets and lengths that are multiples of a sector; 4096 fits every disk.
const ALIGNMENT: usize = 4096;
const CHUNK: usize = 1 << 20;
const READ_BYTES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
const MIB: u64 = 1 << 20;

struct Step {
    name: String,
    threads: usize,
    bytes: usize,
    seconds: f64,
    latencies: Histogram,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let megabytes: u64 = args.number_in("megabytes", 1024, 4..=1 << 20)?;
    let seconds: f64 = args.number_in("seconds", 3.0, 0.05..=600.0)?;
    let threads: usize = args.number_in("threads", 16, 1..=1024)?;
    let scratch = Scratch::new(args)?;
    let file = nameless(&scratch.path)?;
    let time = Duration::from_secs_f64(seconds);
    let mut steps = vec![fill(&file, megabytes * MIB)?];
    let disk = Disk { file: &file, bytes: megabytes * MIB, time };
    steps.push(disk.sequential()?);
    for count in [1, threads] {
        for bytes in READ_BYTES {
            let read = |buffer: &mut [u8], at: u64| file.read_exact_at(buffer, at);
            steps.push(disk.random(format!("read {} KB", bytes >> 10), count, bytes, &read)?);
        }
    }
    let sync = |buffer: &mut [u8], at: u64| {
        file.write_all_at(buffer, at)?;
        file.sync_data()
    };
    steps.push(disk.random("write 4 KB and sync".to_owned(), 1, 4 << 10, &sync)?);
    let rows = table(&steps);
    report::say(&report::columns(&rows));
    if let Some(path) = args.text("html") {
        let mut page = Page::new("nagi-bench disk");
        page.paragraph(&format!(
            "{megabytes} MiB in {}, direct I/O, {seconds} s each.",
            scratch.path.display()
        ));
        page.table(&rows);
        page.write(path)?;
    }
    match args.text("json") {
        Some(path) => fs::write(path, json(&steps)).map_err(failed(path)),
        None => Ok(()),
    }
}

/// Creates a file for direct I/O without a name, which disappears when this process exits.
fn nameless(folder: &Path) -> Outcome<File> {
    let path = folder.join(format!(".nagi-bench-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(target_os = "linux")]
    options.custom_flags(libc::O_DIRECT);
    let file = options.open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Problem::Failed(format!(
            "{}: this file system has no direct I/O, so the disk cannot be measured",
            folder.display()
        )),
        _ => Problem::Failed(format!("{}: {error}", path.display())),
    })?;
    fs::remove_file(&path).map_err(failed("removing the file's name"))?;
    Ok(file)
}

/// Writes the file sequentially, with new bytes in each chunk.
fn fill(file: &File, bytes: u64) -> Outcome<Step> {
    let mut random = Random::new(bytes);
    let mut buffer = vec![0; CHUNK + ALIGNMENT];
    let mut latencies = Histogram::new();
    let mut progress = Progress::new("filling", bytes / CHUNK as u64);
    let mut busy = Duration::ZERO;
    for chunk in 0..bytes / CHUNK as u64 {
        let part = aligned(&mut buffer, CHUNK);
        for word in part.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let begin = Instant::now();
        file.write_all_at(part, chunk * CHUNK as u64).map_err(failed("filling"))?;
        latencies.record(begin.elapsed().as_nanos() as u64);
        busy += begin.elapsed();
        progress.at(chunk);
    }
    let begin = Instant::now();
    file.sync_data().map_err(failed("syncing"))?;
    busy += begin.elapsed();
    Ok(Step {
        name: "write in sequence".to_owned(),
        threads: 1,
        bytes: CHUNK,
        seconds: busy.as_secs_f64(),
        latencies,
    })
}

struct Disk<'f> {
    file: &'f File,
    bytes: u64,
    time: Duration,
}

impl Disk<'_> {
    fn sequential(&self) -> Outcome<Step> {
        let mut buffer = vec![0; CHUNK + ALIGNMENT];
        let (mut latencies, begin, mut at) = (Histogram::new(), Instant::now(), 0);
        while begin.elapsed() < self.time {
            let start = Instant::now();
            self.file
                .read_exact_at(aligned(&mut buffer, CHUNK), at)
                .map_err(failed("reading in sequence"))?;
            latencies.record(start.elapsed().as_nanos() as u64);
            at = (at + CHUNK as u64) % (self.bytes / CHUNK as u64 * CHUNK as u64);
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Step {
            name: "read in sequence".to_owned(),
            threads: 1,
            bytes: CHUNK,
            seconds,
            latencies,
        })
    }

    /// Runs `threads` threads; each performs operations one after the other at its own offsets.
    fn random(
        &self,
        name: String,
        threads: usize,
        bytes: usize,
        operation: &(dyn Fn(&mut [u8], u64) -> io::Result<()> + Sync),
    ) -> Outcome<Step> {
        let all = Mutex::new(Histogram::new());
        let begin = Instant::now();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    let all = &all;
                    scope.spawn(move || -> io::Result<()> {
                        let mut random = Random::new(number as u64 + bytes as u64);
                        let mut buffer = vec![0xA5; bytes + ALIGNMENT];
                        let mut own = Histogram::new();
                        while begin.elapsed() < self.time {
                            let at = random.below(self.bytes / bytes as u64) * bytes as u64;
                            let start = Instant::now();
                            operation(aligned(&mut buffer, bytes), at)?;
                            own.record(start.elapsed().as_nanos() as u64);
                        }
                        all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).merge(&own);
                        Ok(())
                    })
                })
                .collect();
            for worker in workers {
                worker
                    .join()
                    .map_err(|_| Problem::Failed("a thread panicked".to_owned()))?
                    .map_err(failed(&name))?;
            }
            Ok(())
        })?;
        let latencies = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Step { name, threads, bytes, seconds: begin.elapsed().as_secs_f64(), latencies })
    }
}

/// Returns `len` bytes of the buffer that begin at an aligned address. The buffer must be large enough for the
/// padding.
fn aligned(buffer: &mut [u8], len: usize) -> &mut [u8] {
    let skip = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    &mut buffer[skip..skip + len]
}

fn table(steps: &[Step]) -> Vec<Vec<String>> {
    let head = ["", "threads", "a second", "MB/s", "p50 us", "p99 us", "p99.9 us", "max ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for step in steps {
        let rate = step.latencies.count() as f64 / step.seconds.max(1e-9);
        let us = |share: f64| format!("{:.0}", step.latencies.quantile(share) as f64 / 1e3);
        rows.push(vec![
            step.name.clone(),
            step.threads.to_string(),
            format!("{rate:.0}"),
            format!("{:.1}", rate * step.bytes as f64 / 1e6),
            us(0.5),
            us(0.99),
            us(0.999),
            format!("{:.1}", step.latencies.max() as f64 / 1e6),
        ]);
    }
    rows
}

fn json(steps: &[Step]) -> String {
    JsonWriter::file(|w| {
        w.rows(0, steps, |w, step| {
            w.object(|w| {
                w.key("step").string(&step.name);
                w.key("threads").literal(step.threads);
                w.key("bytes").literal(step.bytes);
                w.key("seconds").fixed(step.seconds, 3);
                w.key("operations").literal(step.latencies.count());
                put_quantiles(w, &step.latencies);
            });
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_measured_and_nothing_stays() {
        let folder = std::env::temp_dir().join(format!("nagi-bench-disk-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let args = ["--dbpath", &folder.to_string_lossy(), "--megabytes", "4", "--seconds", "0.05"]
            .map(str::to_owned);
        match run(&crate::table::args("disk", &args.each_ref().map(String::as_str)).unwrap()) {
            Ok(()) => {}
            // On tmpfs, which does not support direct I/O.
            Err(Problem::Failed(text)) => assert!(text.contains("no direct I/O"), "{text}"),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
