//! `nagi-bench allocate`: measures how long the file system takes to allocate space for data files.
//!
//! Sizes range from 16 MB to 2,047 MB, as an mmap engine allocates them. Three methods are timed for each size:
//!
//! - `fallocate`: immediate on ext4 and xfs, refused by ext3;
//! - the same size filled with zeroes and synced, which a C library does where `fallocate` is refused;
//! - a file that grows as it is written in pieces of 64 KB, which is how Nagi's files grow. The longest single
//!   piece is reported, because no operation waits for more than one piece.
use crate::args::{Args, Outcome, failed};
use crate::html::Page;
use crate::process::Scratch;
use crate::progress::Progress;
use crate::report;
use nagi_bson::json::JsonWriter;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const SIZES_MB: [u64; 8] = [16, 32, 64, 128, 256, 512, 1024, 2047];
static ZEROES: [u8; 1 << 20] = [0; 1 << 20];
const PIECE: usize = 64 << 10;

struct Step {
    megabytes: u64,
    /// None if the file system refuses `fallocate`.
    fallocate: Option<Duration>,
    zeroes: Duration,
    grown: Duration,
    longest_piece: Duration,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let scale: u64 = args.number_in("scale", 1, 1..=128)?;
    let scratch = Scratch::new(args)?;
    let file_system = file_system(&scratch.path);
    let mut progress = Progress::new("allocating", SIZES_MB.len() as u64);
    let mut steps = Vec::new();
    for (at, megabytes) in SIZES_MB.into_iter().enumerate() {
        progress.at(at as u64);
        steps.push(measure(&scratch.path, (megabytes / scale).max(1))?);
    }
    drop(progress);
    let rows = table(&steps);
    let title = format!("{} ({file_system})", scratch.path.display());
    report::say(&format!("allocate: {title}\n{}", report::columns(&rows)));
    if let Some(path) = args.text("html") {
        let mut page = Page::new("nagi-bench allocate");
        page.paragraph(&title);
        page.table(&rows);
        page.write(path)?;
    }
    match args.text("json") {
        Some(path) => fs::write(path, json(&file_system, &steps)).map_err(failed(path)),
        None => Ok(()),
    }
}

fn measure(folder: &Path, megabytes: u64) -> Outcome<Step> {
    let bytes = megabytes * MIB;
    let path = folder.join(format!(".nagi-allocate-{}", std::process::id()));
    let (fallocate, refused) = timed(&path, |file| {
        let none = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(file, none, 0, bytes) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(true),
            Err(error) => Err(error.into()),
        }
    })?;
    let (zeroes, ()) = timed(&path, |mut file| {
        (0..megabytes).try_for_each(|_| file.write_all(&ZEROES))?;
        file.sync_data()
    })?;
    let (grown, longest_piece) = timed(&path, |mut file| {
        let mut longest = Duration::ZERO;
        for _ in 0..bytes / PIECE as u64 {
            let begin = Instant::now();
            file.write_all(&ZEROES[..PIECE])?;
            longest = longest.max(begin.elapsed());
        }
        Ok(longest)
    })?;
    Ok(Step { megabytes, fallocate: (!refused).then_some(fallocate), zeroes, grown, longest_piece })
}

/// Runs and times `f` on a new file, which is removed afterwards.
fn timed<T>(path: &Path, f: impl FnOnce(&File) -> io::Result<T>) -> Outcome<(Duration, T)> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let file = file.map_err(failed("creating a file"))?;
    let begin = Instant::now();
    let result = f(&file);
    let time = begin.elapsed();
    drop(file);
    fs::remove_file(path).map_err(failed("removing a file"))?;
    Ok((time, result.map_err(failed("allocating"))?))
}

/// The type of the file system that contains the folder.
fn file_system(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    nagi_proc::mounts::of(&folder).map_or_else(|| "unknown".to_owned(), |mount| mount.kind)
}

fn table(steps: &[Step]) -> Vec<Vec<String>> {
    let head = ["MB", "fallocate ms", "zeroes ms", "as written ms", "longest 64 KB ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
    for step in steps {
        rows.push(vec![
            step.megabytes.to_string(),
            step.fallocate.map_or("refused".to_owned(), ms),
            ms(step.zeroes),
            ms(step.grown),
            ms(step.longest_piece),
        ]);
    }
    rows
}

fn json(file_system: &str, steps: &[Step]) -> String {
    let put = |w: &mut JsonWriter<'_>, step: &Step| {
        w.key("megabytes").literal(step.megabytes);
        w.key("fallocateUs").literal_or_null(step.fallocate.map(|time| time.as_micros()));
        w.key("zeroesUs").literal(step.zeroes.as_micros());
        w.key("asWrittenUs").literal(step.grown.as_micros());
        w.key("longestPieceUs").literal(step.longest_piece.as_micros());
    };
    JsonWriter::file(|w| {
        w.object(|w| {
            w.key("fileSystem").string(file_system);
            w.key("sizes").rows(0, steps, |w, step| w.object(|w| put(w, step)));
        });
    })
}
