//! The estimate against an LRU cache that is simulated in full.

use std::collections::{BTreeMap, HashMap};

use super::*;

/// An LRU cache of whole entries.
#[derive(Default)]
struct Lru {
    most: u64,
    bytes: u64,
    clock: u64,
    by_key: HashMap<u64, (u64, u64)>,
    by_use: BTreeMap<u64, u64>,
    hits: u64,
    reads: u64,
}

impl Lru {
    fn read(&mut self, key: u64, bytes: u64) {
        self.clock += 1;
        self.reads += 1;
        if let Some((used, _)) = self.by_key.get_mut(&key) {
            self.hits += 1;
            self.by_use.remove(used);
            self.by_use.insert(self.clock, key);
            *used = self.clock;
            return;
        }
        self.bytes += bytes;
        self.by_key.insert(key, (self.clock, bytes));
        self.by_use.insert(self.clock, key);
        while self.bytes > self.most
            && let Some((_, key)) = self.by_use.pop_first()
        {
            self.bytes -= self.by_key.remove(&key).map_or(0, |entry| entry.1);
        }
    }

    fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.reads as f64
    }
}

/// Evenly distributed (the finalizer of SplitMix64).
fn hash(key: u64) -> u64 {
    let x = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.0 += 1;
        (hash(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, most: u64) -> u64 {
        (self.part() * most as f64) as u64
    }
}

/// Numbers from 0 to `count`, the smaller ones more often, with exponent 0.99.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: usize) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let wanted = random.part() * self.0[self.0.len() - 1];
        self.0.partition_point(|sum| *sum < wanted) as u64
    }
}

const SIZE: u64 = 8192;
const CAPACITY: u64 = 2000 * SIZE;
const TIMES: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];

/// The greatest difference between estimate and truth, of all sizes.
fn error_of(shift: u32, mut trace: impl FnMut() -> (u64, u64), reads: u64) -> f64 {
    let reuse = Reuse::new(shift, CAPACITY);
    let mut truth =
        TIMES.map(|times| Lru { most: (CAPACITY as f64 * times) as u64, ..Lru::default() });
    let now = Instant::now();
    for step in 0..reads {
        let (key, bytes) = trace();
        truth.iter_mut().for_each(|lru| lru.read(key, bytes));
        if reuse.samples(hash(key)) {
            reuse.read_at(hash(key), bytes, now);
        }
        if step % 10_000 == 0 {
            reuse.curve_at(step, now);
        }
    }
    let (curve, sampled) = reuse.curve_at(reads, now).unwrap();
    assert!(sampled > 300);
    let estimated = TIMES.map(|times| curve.hit_rate((CAPACITY as f64 * times) as u64));
    let true_rates = truth.map(|lru| lru.hit_rate());
    let errors = estimated.iter().zip(true_rates).map(|(a, b)| (a - b).abs());
    let worst = errors.fold(0.0, f64::max);
    println!("rate 1/{}: estimated {estimated:.3?}, true {true_rates:.3?}", 1_u64 << shift);
    worst
}

#[test]
fn skewed_reads() {
    // The smaller sample has 16 entries for the smallest of the caches.
    for (shift, most) in [(4, 0.04), (6, 0.08)] {
        let (zipf, mut random) = (Zipf::new(100_000), Random(1));
        let error = error_of(shift, || (zipf.draw(&mut random), SIZE), 250_000);
        assert!(error < most, "{error}");
    }
}

/// The top of an index and a filter, which every read passes: whether or not the sample has one of them or both.
#[test]
fn entries_that_every_read_needs() {
    for shift in [4, 6] {
        let (mut none, mut one, mut both) = (0, 0, 0);
        for seed in 0..400_u64 {
            let hot = [1 << 40 | seed, 1 << 41 | seed];
            let reuse = Reuse::new(shift, CAPACITY);
            let found = match hot.map(|key| reuse.samples(hash(key))) {
                [true, true] => &mut both,
                [false, false] => &mut none,
                _ => &mut one,
            };
            if *found >= 1 {
                continue;
            }
            *found += 1;
            let (zipf, mut random, mut step) = (Zipf::new(50_000), Random(4), 0);
            let trace = || {
                step += 1;
                let key = if step % 3 < 2 { hot[step % 3] } else { zipf.draw(&mut random) };
                (key, SIZE)
            };
            let error = error_of(shift, trace, 100_000);
            assert!(error < 0.06, "rate 1/{}, {hot:?}: {error}", 1_u64 << shift);
        }
        assert!(none == 1 && one == 1, "{none}, {one}, {both}");
    }
}

#[test]
fn entries_of_all_sizes() {
    let (zipf, mut random) = (Zipf::new(50_000), Random(2));
    let trace = || {
        let key = zipf.draw(&mut random);
        (key, 500 + hash(key) % 15_000)
    };
    let error = error_of(4, trace, 150_000);
    assert!(error < 0.05, "{error}");
}

#[test]
fn even_reads_of_four_times_the_cache() {
    let mut random = Random(3);
    let error = error_of(4, || (random.below(8000), SIZE), 200_000);
    assert!(error < 0.04, "{error}");
}

/// A scan that repeats: no cache smaller than all of it answers a single read, and one that is larger answers all.
#[test]
fn a_scan_that_repeats_is_a_step() {
    let reuse = Reuse::new(4, CAPACITY);
    let now = Instant::now();
    for step in 0..200_000_u64 {
        let key = step % 6000;
        if reuse.samples(hash(key)) {
            reuse.read_at(hash(key), SIZE, now);
        }
    }
    let (curve, _) = reuse.curve_at(200_000, now).unwrap();
    assert!(curve.hit_rate(2 * CAPACITY) < 0.02, "{}", curve.hit_rate(2 * CAPACITY));
    assert!(curve.hit_rate(4 * CAPACITY) > 0.95, "{}", curve.hit_rate(4 * CAPACITY));
    let enough = curve.bytes_for(0.95).unwrap() as f64 / (6000 * SIZE) as f64;
    assert!((0.85..1.25).contains(&enough), "{enough}");
}

#[test]
fn it_is_bounded_and_follows_the_load() {
    let reuse = Reuse::new(0, CAPACITY);
    let mut now = Instant::now();
    for key in 0..1_000_000_u64 {
        if reuse.samples(hash(key)) {
            reuse.read_at(hash(key), SIZE, now);
        }
    }
    let entries = reuse.state.lock().stack.len();
    assert!((1000..=ENTRIES_MAX).contains(&entries), "{entries}");
    assert!(reuse.curve_at(0, now).unwrap().0.hit_rate(REACH * CAPACITY) < 0.01);
    // An hour later the same entries are read again and again.
    now += Duration::from_secs(3600);
    for key in 0..400_000_u64 {
        let key = key % 1000;
        if reuse.samples(hash(key)) {
            reuse.read_at(hash(key), SIZE, now);
        }
    }
    let found = reuse.curve_at(0, now).unwrap().0.hit_rate(CAPACITY);
    assert!(found > 0.9, "{found}");
}

#[test]
fn what_changes_misses_and_what_is_put_before_its_read_hits() {
    let reuse = Reuse::new(0, CAPACITY);
    let now = Instant::now();
    for key in 0..400_u64 {
        reuse.cached(hash(key), SIZE);
        reuse.read_at(hash(key), 0, now);
    }
    assert_eq!(reuse.curve_at(400, now).unwrap().0.hit_rate(CAPACITY), 1.0);
    for key in 0..400_u64 {
        reuse.removed(hash(key));
        reuse.read_at(hash(key), SIZE, now);
    }
    assert_eq!(reuse.curve_at(800, now).unwrap().0.hit_rate(CAPACITY), 0.5);
}

#[test]
fn a_smaller_cache_begins_a_new_sample() {
    let reuse = Reuse::new(4, 1 << 40);
    let now = Instant::now();
    for key in 0..600_000_u64 {
        if reuse.samples(hash(key)) {
            reuse.read_at(hash(key), SIZE, now);
        }
    }
    assert!(reuse.threshold.load(Relaxed) < u64::MAX >> 6);
    reuse.set_capacity(CAPACITY);
    assert_eq!(reuse.threshold.load(Relaxed), u64::MAX >> 4);
    assert_eq!(reuse.state.lock().stack.len(), 0);
}

#[test]
fn sizes_are_those_of_the_cache() {
    let mut weights = Weights::default();
    weights.add(1e6, 1.0);
    let estimate = CacheEstimate {
        curve: weights.curve(0.0),
        sampled: 1000,
        capacity: 1 << 20,
        reserved: 100_000,
        density: 2.0,
    };
    assert_eq!(estimate.hit_rate(500_000), Some(0.0));
    assert_eq!(estimate.hit_rate(700_000), Some(1.0));
    assert_eq!(estimate.hit_rate(9 << 20), None);
    let enough = estimate.bytes_for(0.99).unwrap();
    assert!((600_000..660_000).contains(&enough), "{enough}");
}
