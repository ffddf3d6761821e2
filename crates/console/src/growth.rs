//! The sizes of collections over time, and how fast they grow.
//!
//! Sizes are read every minute at first. When the list of samples is full, every second one is dropped and the time
//! between two is doubled, up to about an hour; then the oldest ones are dropped. So some minutes after the start there
//! is a first answer, and days later one over days.

use std::collections::HashMap;

use nagi_bson::DocWriter;
use nagi_server::CollectionSize;
use parking_lot::Mutex;

/// Collections whose sizes are kept: the largest ones.
pub(crate) const COLLECTIONS_MAX: usize = 1000;
const SAMPLES_MAX: usize = 96;
const FIRST_EVERY_MS: i64 = 60_000;
const LAST_EVERY_MS: i64 = FIRST_EVERY_MS << 6;
/// Of a collection that did not exist then, or was not among the largest.
const ABSENT: u64 = u64::MAX;

/// Less time says nothing about the next hours.
const SPAN_MS_MIN: i64 = 600_000;
const POINTS_MIN: usize = 5;
/// The part of the variance that the line must explain: a single load of data is no growth that continues.
const FIT_MIN: f64 = 0.75;
/// Changes below this part of the size, over all samples, are none.
const STEADY_PART: f64 = 0.001;
const DAY_MS: f64 = 86_400_000.0;

struct Kept {
    every_ms: i64,
    times: Vec<i64>,
    /// For each time a size, by namespace.
    sizes: HashMap<String, Vec<u64>>,
}

/// The history of sizes. 800 KB for a thousand collections.
pub(crate) struct Growth(Mutex<Kept>);

impl Default for Growth {
    fn default() -> Growth {
        let kept = Kept { every_ms: FIRST_EVERY_MS, times: Vec::new(), sizes: HashMap::new() };
        Growth(Mutex::new(kept))
    }
}

/// What is expected of a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Trend {
    /// There are too few samples yet.
    Unknown,
    Steady,
    /// It changes, but not along a line.
    Uneven,
    /// Bytes in a day; negative if it shrinks.
    Linear(f64),
}

/// The size of a database or a collection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grown {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) span_ms: i64,
    pub(crate) trend: Trend,
}

impl Growth {
    /// Takes a sample if it is time; `read` is called only then.
    pub(crate) fn sample(&self, now_ms: i64, read: impl FnOnce() -> Vec<CollectionSize>) {
        let mut kept = self.0.lock();
        if let Some(last) = kept.times.last() {
            // A clock that was set back begins a new history.
            match now_ms - last {
                since if since < 0 => kept.forget(),
                since if since < kept.every_ms - 500 => return,
                _ => {}
            }
        }
        kept.add(now_ms, read());
    }

    /// The collections of a database, by name.
    pub(crate) fn of_database(&self, db: &str) -> Vec<Grown> {
        let kept = self.0.lock();
        let own = kept.sizes.iter().filter_map(|(namespace, sizes)| {
            let name = namespace.strip_prefix(db)?.strip_prefix('.')?;
            Some(kept.grown(name, sizes))
        });
        let mut own: Vec<Grown> = own.collect();
        own.sort_by(|a, b| a.name.cmp(&b.name));
        own
    }

    /// The databases, by name.
    pub(crate) fn of_databases(&self) -> Vec<Grown> {
        let kept = self.0.lock();
        let mut sums: HashMap<&str, Vec<u64>> = HashMap::new();
        for (namespace, sizes) in &kept.sizes {
            let db = namespace.split('.').next().unwrap_or(namespace);
            let sum = sums.entry(db).or_insert_with(|| vec![0; sizes.len()]);
            for (sum, size) in sum.iter_mut().zip(sizes).filter(|(_, size)| **size != ABSENT) {
                *sum += size;
            }
        }
        let mut all: Vec<Grown> =
            sums.into_iter().map(|(db, sizes)| kept.grown(db, &sizes)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

impl Kept {
    fn forget(&mut self) {
        self.times.clear();
        self.sizes.clear();
        self.every_ms = FIRST_EVERY_MS;
    }

    fn add(&mut self, now_ms: i64, found: Vec<CollectionSize>) {
        if self.times.len() == SAMPLES_MAX {
            self.thin_out();
        }
        let count = self.times.len();
        self.times.push(now_ms);
        for one in found.into_iter().take(COLLECTIONS_MAX) {
            self.sizes.entry(one.namespace).or_insert_with(|| vec![ABSENT; count]).push(one.bytes);
        }
        // What was dropped, or is no longer among the largest, has no size for this time.
        self.sizes.retain(|_, sizes| sizes.len() > count);
    }

    fn thin_out(&mut self) {
        if self.every_ms >= LAST_EVERY_MS {
            self.times.remove(0);
            for sizes in self.sizes.values_mut() {
                sizes.remove(0);
            }
            return;
        }
        self.every_ms *= 2;
        every_second(&mut self.times);
        self.sizes.values_mut().for_each(every_second);
    }

    fn grown(&self, name: &str, sizes: &[u64]) -> Grown {
        let points: Vec<(f64, f64)> = (self.times.iter().zip(sizes))
            .filter(|(_, size)| **size != ABSENT)
            .map(|(time, size)| (*time as f64, *size as f64))
            .collect();
        let span_ms = match (points.first(), points.last()) {
            (Some(first), Some(last)) => (last.0 - first.0) as i64,
            _ => 0,
        };
        let bytes = points.last().map_or(0, |last| last.1 as u64);
        Grown { name: name.to_owned(), bytes, span_ms, trend: trend(&points, span_ms) }
    }
}

/// Keeps the newest and every second one before it.
fn every_second<T>(list: &mut Vec<T>) {
    let mut keep = list.len() % 2 == 1;
    list.retain(|_| {
        keep = !keep;
        !keep
    });
}

/// The line through the points by least squares.
fn trend(points: &[(f64, f64)], span_ms: i64) -> Trend {
    if points.len() < POINTS_MIN || span_ms < SPAN_MS_MIN {
        return Trend::Unknown;
    }
    let count = points.len() as f64;
    let (mean_t, mean_v) =
        points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (mean_t, mean_v) = (mean_t / count, mean_v / count);
    let (mut both, mut times, mut values) = (0.0, 0.0, 0.0);
    for (t, v) in points {
        both += (t - mean_t) * (v - mean_v);
        times += (t - mean_t) * (t - mean_t);
        values += (v - mean_v) * (v - mean_v);
    }
    let (least, most) = points
        .iter()
        .fold((f64::MAX, 0.0_f64), |ends, point| (ends.0.min(point.1), ends.1.max(point.1)));
    if most - least <= mean_v * STEADY_PART {
        return Trend::Steady;
    }
    if both * both < FIT_MIN * times * values {
        return Trend::Uneven;
    }
    Trend::Linear(both / times * DAY_MS)
}

impl Grown {
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("name", self.name.as_str());
        out.put("bytes", i64::try_from(self.bytes).unwrap_or(i64::MAX));
        out.put("spanMs", self.span_ms);
        match self.trend {
            Trend::Unknown => out.put("trend", "unknown"),
            Trend::Steady => out.put("trend", "steady"),
            Trend::Uneven => out.put("trend", "uneven"),
            Trend::Linear(per_day) => {
                out.put("trend", "linear");
                out.put("bytesPerDay", per_day);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn found(namespace: &str, bytes: u64) -> CollectionSize {
        CollectionSize { namespace: namespace.to_owned(), bytes }
    }

    /// Samples once a minute.
    fn filled(minutes: i64, sizes: impl Fn(i64) -> Vec<CollectionSize>) -> Growth {
        let growth = Growth::default();
        (0..minutes).for_each(|minute| growth.sample(minute * 60_000, || sizes(minute)));
        growth
    }

    #[test]
    fn nothing_is_forecast_from_little() {
        let line = |minute: i64| vec![found("shop.a", 100 * MIB + minute as u64 * MIB)];
        assert_eq!(filled(10, line).of_database("shop")[0].trend, Trend::Unknown);
        let known = filled(11, line).of_database("shop").remove(0);
        assert_eq!((known.bytes, known.span_ms), (110 * MIB, 600_000));
        let Trend::Linear(per_day) = known.trend else { panic!("{known:?}") };
        assert!((per_day / (1440.0 * MIB as f64) - 1.0).abs() < 1e-6, "{per_day}");
    }

    #[test]
    fn a_load_at_once_is_no_line() {
        let step = |minute: i64| vec![found("shop.a", if minute < 20 { MIB } else { 900 * MIB })];
        assert_eq!(filled(23, step).of_database("shop")[0].trend, Trend::Uneven);
        let still = |_| vec![found("shop.a", 5 * MIB), found("shop.empty", 0)];
        let growth = filled(30, still);
        assert!(growth.of_database("shop").iter().all(|one| one.trend == Trend::Steady));
        let down = |minute: i64| vec![found("shop.a", (1000 - minute as u64) * MIB)];
        let Trend::Linear(per_day) = filled(30, down).of_database("shop")[0].trend else {
            panic!()
        };
        assert!(per_day < 0.0);
    }

    #[test]
    fn databases_are_sums_of_their_collections() {
        let sizes = |minute: i64| {
            let mut all = vec![found("shop.a", MIB), found("shop2.a", 7), found("shop.b.c", MIB)];
            if minute >= 5 {
                all.push(found("shop.new", minute as u64 * MIB));
            }
            all
        };
        let growth = filled(20, sizes);
        let all = growth.of_databases();
        let names: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.bytes)).collect();
        assert_eq!(names, [("shop", 21 * MIB), ("shop2", 7)]);
        let own: Vec<_> = growth.of_database("shop").into_iter().map(|one| one.name).collect();
        assert_eq!(own, ["a", "b.c", "new"]);
        assert!(growth.of_database("sho").is_empty());
    }

    #[test]
    fn it_is_bounded_and_reaches_over_days() {
        let growth = Growth::default();
        let many = |count: u64| (0..count).map(|n| found(&format!("db.c{n}"), n + 1)).collect();
        for minute in 0..20_000_i64 {
            growth.sample(minute * 60_000, || many(if minute < 10_000 { 3 } else { 2 }));
        }
        let kept = growth.0.lock();
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&kept.times.len()));
        assert_eq!((kept.every_ms, kept.sizes.len()), (LAST_EVERY_MS, 2));
        assert!(kept.sizes.values().all(|sizes| sizes.len() == kept.times.len()));
        let span = kept.times[kept.times.len() - 1] - kept.times[0];
        assert!(span >= 3 * 86_400_000, "{span}");
        drop(kept);
        growth.sample(i64::MAX, || many(5000));
        assert_eq!(growth.0.lock().sizes.len(), COLLECTIONS_MAX);
    }

    #[test]
    fn samples_are_not_taken_more_often() {
        let growth = Growth::default();
        growth.sample(1_000_000, Vec::new);
        growth.sample(1_030_000, || panic!("too early"));
        growth.sample(1_060_000, Vec::new);
        assert_eq!(growth.0.lock().times.len(), 2);
        growth.sample(5, Vec::new);
        assert_eq!(growth.0.lock().times, [5]);
    }
}
