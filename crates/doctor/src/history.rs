//! The record of free space, and the prediction of when the disk is full.
//!
//! A running server appends one line per hour to `free_space.txt` in the data directory and keeps the newest
//! 720 (30 days); see docs/format.md. The trend is the median of the slopes between all pairs of samples
//! (Theil-Sen estimator), so that one large drop or load does not dominate it.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The record's name in the data directory.
pub const FILE: &str = "free_space.txt";

const HEAD: &str = "nagi free space 1";
const SAMPLES_MAX: usize = 720;
const INTERVAL_S: u64 = 3600;
/// Larger than 720 lines of maximum length.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// A trend over less time is noise.
const SEEN_MIN_S: u64 = 6 * 3600;
const DAY_S: f64 = 86_400.0;
/// Losing fewer bytes per day than this does not count as shrinking.
const SHRINKING_BYTES_A_DAY: f64 = 1_048_576.0;

/// Free space at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Seconds since 1970.
    pub seconds: u64,
    /// Bytes that could still be written.
    pub available_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
}

/// The change of free space over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub(crate) bytes_a_day: f64,
    pub(crate) seen_days: f64,
}

/// The trend of a record; none if the record spans less than six hours. Takes O(n^2) steps for n samples.
pub(crate) fn trend(samples: &[Sample]) -> Option<Trend> {
    let newest = samples.last()?;
    // Samples from before the file system was resized are ignored.
    let same = |sample: &&Sample| sample.total_bytes == newest.total_bytes;
    let samples: Vec<_> = samples.iter().rev().take_while(same).take(SAMPLES_MAX).collect();
    let oldest = samples.last()?;
    let seen = newest.seconds.checked_sub(oldest.seconds)?;
    if seen < SEEN_MIN_S || samples.len() < 3 {
        return None;
    }
    let mut slopes = Vec::new();
    for (at, later) in samples.iter().enumerate() {
        for earlier in &samples[at + 1..] {
            let time = later.seconds as f64 - earlier.seconds as f64;
            if time > 0.0 {
                let change = later.available_bytes as f64 - earlier.available_bytes as f64;
                slopes.push(change / time * DAY_S);
            }
        }
    }
    slopes.sort_by(f64::total_cmp);
    let bytes_a_day = *slopes.get(slopes.len() / 2)?;
    Some(Trend { bytes_a_day, seen_days: seen as f64 / DAY_S })
}

/// Days until `available_bytes` are used up, if free space shrinks and the record is long enough.
pub fn days_until_full(samples: &[Sample], available_bytes: u64) -> Option<f64> {
    let trend = trend(samples)?;
    (trend.bytes_a_day < -SHRINKING_BYTES_A_DAY)
        .then(|| available_bytes as f64 / -trend.bytes_a_day)
}

/// Parses the samples of a record, oldest first; invalid lines are skipped.
pub(crate) fn parse(text: &str) -> Vec<Sample> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Vec::new();
    }
    let sample = |line: &str| {
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Sample { seconds: next()?, available_bytes: next()?, total_bytes: next()? })
    };
    let mut samples: Vec<_> = lines.filter_map(sample).collect();
    samples.sort_by_key(|sample| sample.seconds);
    samples.drain(..samples.len().saturating_sub(SAMPLES_MAX));
    samples
}

fn print(samples: &[Sample]) -> String {
    let mut text = format!("{HEAD}\n");
    for Sample { seconds, available_bytes, total_bytes } in samples {
        let _ = writeln!(text, "{seconds} {available_bytes} {total_bytes}");
    }
    text
}

/// The record of a data directory; empty if there is none.
pub(crate) fn read(folder: &Path) -> Vec<Sample> {
    let Some(file) = nagi_proc::open(&folder.join(FILE)) else { return Vec::new() };
    let mut text = String::new();
    match file.take(FILE_BYTES_MAX).read_to_string(&mut text) {
        Ok(_) => parse(&text),
        Err(_) => Vec::new(),
    }
}

/// Adds a sample if the newest one is an hour old or has a time in the future. Returns the seconds until the
/// next sample is due.
fn record(folder: &Path, now: u64) -> io::Result<u64> {
    let mut samples = read(folder);
    if let Some(newest) = samples.last().filter(|newest| newest.seconds <= now)
        && now - newest.seconds < INTERVAL_S
    {
        return Ok(INTERVAL_S - (now - newest.seconds));
    }
    // The clock was set back: samples with future times would never leave the record.
    samples.retain(|sample| sample.seconds <= now);
    let system = rustix::fs::statvfs(folder)?;
    samples.push(Sample {
        seconds: now,
        available_bytes: system.f_bavail.saturating_mul(system.f_frsize),
        total_bytes: system.f_blocks.saturating_mul(system.f_frsize),
    });
    samples.drain(..samples.len().saturating_sub(SAMPLES_MAX));
    // The file is renamed into place, so that a reader sees a complete record. It is not synced, because losing
    // an hour is harmless.
    let temporary = folder.join(format!("{FILE}.tmp"));
    let written = std::fs::write(&temporary, print(&samples))
        .and_then(|()| std::fs::rename(&temporary, folder.join(FILE)));
    if written.is_err() {
        // On a full disk the file may be incomplete.
        let _ = std::fs::remove_file(&temporary);
    }
    written.map(|()| INTERVAL_S)
}

/// Keeps the record of a data directory until the sender of `stop` is dropped. Blocks, so it runs on a thread
/// of its own. If the disk cannot be written (because it is full, for example), the record has a gap.
pub fn keep_record(folder: &Path, stop: &Receiver<()>) {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let pause = record(folder, now).unwrap_or(INTERVAL_S);
        match stop.recv_timeout(Duration::from_secs(pause)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(count: u64, available: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |hour: u64| Sample {
            seconds: hour * 3600,
            available_bytes: available(hour),
            total_bytes: 1 << 40,
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn the_trend_shrugs_at_one_jump() {
        const GIB: u64 = 1 << 30;
        let shrinking = hours(48, |h| if h == 20 { GIB } else { 1000 * GIB - h * GIB });
        let days = days_until_full(&shrinking, 240 * GIB).unwrap();
        assert!((days - 10.0).abs() < 0.1, "{days}");
        assert_eq!(days_until_full(&hours(48, |_| GIB), GIB), None);
        assert_eq!(days_until_full(&hours(48, |h| GIB * h), GIB), None);
        assert_eq!(trend(&hours(5, |h| GIB * h)), None);
        assert_eq!(trend(&[]), None);
    }

    #[test]
    fn a_resized_file_system_begins_anew() {
        let mut samples = hours(48, |h| (1 << 40) - (h << 30));
        for sample in &mut samples[..46] {
            sample.total_bytes = 7;
        }
        assert_eq!(trend(&samples), None);
    }

    #[test]
    fn any_text_is_a_record() {
        let samples = hours(3, |h| h);
        assert_eq!(parse(&print(&samples)), samples);
        assert_eq!(parse("nagi free space 1\n1 2\nx y z\n3 4 5\n").len(), 1);
        assert_eq!(parse("nagi free space 2\n3 4 5\n"), []);
        assert_eq!(parse(&print(&hours(2000, |h| h))).len(), SAMPLES_MAX);
    }

    #[test]
    fn one_sample_an_hour_and_a_bounded_file() {
        let folder =
            std::env::temp_dir().join(format!("nagi-doctor-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(record(&folder, 10_000).unwrap(), 3600);
        assert_eq!(record(&folder, 10_600).unwrap(), 3000);
        assert_eq!(read(&folder).len(), 1);
        for hour in 0..2 * SAMPLES_MAX as u64 {
            record(&folder, 20_000 + hour * 3600).unwrap();
        }
        let samples = read(&folder);
        assert_eq!(samples.len(), SAMPLES_MAX);
        assert!(samples.last().unwrap().available_bytes <= samples.last().unwrap().total_bytes);
        // The clock was set back.
        assert_eq!(record(&folder, 30).unwrap(), 3600);
        assert_eq!(read(&folder).len(), 1);
        let (stop, stopped) = std::sync::mpsc::channel();
        drop(stop);
        keep_record(&folder, &stopped);
        assert_eq!(read(&folder).len(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
