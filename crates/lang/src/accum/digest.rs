//! A collection of numbers for percentiles: all numbers while they are few, a t-digest when they are many.
//!
//! ```text
//!   few:    every number                          exact
//!   many:   centroids (mean, weight), sorted      small weights at both ends, large ones in the middle
//! ```
//!
//! A centroid stands for `weight` numbers near its mean. A t-digest bounds the *rank* error depending on the
//! percentile. With a compression of 2000, a median is the number at a rank within 0.08 % of the correct one, a 99th
//! percentile within 0.02 %.
//!
//! Infinities are counted separately, so that they do not affect the means. The minimum and the maximum are kept. The
//! memory is at most about 200 KB, for any input.

use nagi_bson::{Array, Doc, Value, ValueSlot, number};

/// The maximal number of values that are kept individually. MongoDB's digest is exact up to a similar count.
const KEPT_MAX: usize = 16_384;
/// The compression. A higher value means more centroids and a smaller error.
const COMPRESSION: f64 = 2000.0;

/// A group of numbers with similar values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Centroid {
    mean: f64,
    weight: f64,
}

/// A collection of numbers; NaN is ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Digest {
    /// Finite numbers that are not in a centroid.
    kept: Vec<f64>,
    /// Sorted by mean; empty while all numbers are kept.
    centroids: Vec<Centroid>,
    /// The total weight of the centroids, and the extremes of their numbers.
    digested: f64,
    least: f64,
    largest: f64,
    /// The counts of the negative and the positive infinities.
    below: u64,
    above: u64,
}

impl Digest {
    /// Adds one number.
    pub(crate) fn add(&mut self, n: f64) {
        match n {
            f64::NEG_INFINITY => self.below += 1,
            f64::INFINITY => self.above += 1,
            n if n.is_nan() => {}
            n => {
                self.kept.push(n);
                if self.kept.len() > KEPT_MAX {
                    self.digest(Vec::new());
                }
            }
        }
    }

    /// Moves the kept numbers, and the centroids of `more`, into the centroids.
    fn digest(&mut self, more: Vec<Centroid>) {
        let one = |n: f64| Centroid { mean: n, weight: 1.0 };
        let mut all = std::mem::take(&mut self.centroids);
        if all.is_empty() && more.is_empty() {
            (self.least, self.largest) = (f64::INFINITY, f64::NEG_INFINITY);
        }
        for n in self.kept.drain(..) {
            self.least = self.least.min(n);
            self.largest = self.largest.max(n);
            all.push(one(n));
        }
        all.extend(more);
        all.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        self.digested = all.iter().map(|centroid| centroid.weight).sum();
        self.centroids = merged(&all, self.digested);
    }

    /// The number at a percentile `share` from 0 to 1: the number at rank `ceil(share * count)`, or an approximation.
    /// None if the collection is empty. It sorts the kept numbers.
    pub(crate) fn at(&mut self, share: f64) -> Option<f64> {
        if !self.centroids.is_empty() && !self.kept.is_empty() {
            self.digest(Vec::new());
        }
        let finite = self.kept.len() as u64 + self.digested as u64;
        let count = finite + self.below + self.above;
        if count == 0 {
            return None;
        }
        let rank = ((share * count as f64).ceil() as u64).clamp(1, count);
        if rank <= self.below {
            return Some(f64::NEG_INFINITY);
        }
        let rank = rank - self.below;
        if rank > finite {
            return Some(f64::INFINITY);
        }
        if self.centroids.is_empty() {
            self.kept.sort_unstable_by(f64::total_cmp);
            return self.kept.get(rank as usize - 1).copied();
        }
        Some(self.between(rank as f64))
    }

    /// The number at a rank, counted from 1, interpolated between the middles of two centroids.
    fn between(&self, rank: f64) -> f64 {
        if rank <= 1.0 {
            return self.least;
        }
        if rank >= self.digested {
            return self.largest;
        }
        let (mut before, mut last) = (0.0, (1.0, self.least));
        for centroid in &self.centroids {
            let middle = (before + (centroid.weight + 1.0) / 2.0, centroid.mean);
            let whole = centroid.weight == 1.0 && middle.0 == rank;
            if whole {
                return centroid.mean;
            }
            if middle.0 >= rank {
                return interpolated(last, middle, rank);
            }
            before += centroid.weight;
            last = middle;
        }
        interpolated(last, (self.digested, self.largest), rank)
    }

    /// The memory in bytes beside its own size.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.len() * size_of::<f64>() + self.centroids.len() * size_of::<Centroid>()
    }

    /// Writes the whole state in the form that [`Digest::merge`] reads.
    pub(crate) fn partial(&self, out: ValueSlot<'_>) {
        out.doc(|out| {
            out.put("below", self.below as i64);
            out.put("above", self.above as i64);
            out.array("kept", |out| self.kept.iter().for_each(|n| out.push(*n)));
            if !self.centroids.is_empty() {
                out.put("least", self.least);
                out.put("largest", self.largest);
                let means = self.centroids.iter().map(|centroid| centroid.mean);
                out.array("means", |out| means.for_each(|mean| out.push(mean)));
                let weights = self.centroids.iter().map(|centroid| centroid.weight);
                out.array("weights", |out| weights.for_each(|weight| out.push(weight)));
            }
        });
    }

    /// Merges the state that another digest wrote.
    pub(crate) fn merge(&mut self, part: Doc<'_>) {
        let count = |name: &str| number::as_i64_exact(part.get(name)).unwrap_or(0).max(0) as u64;
        let list = |name: &str| part.get(name).as_array().unwrap_or(Array::EMPTY);
        self.below += count("below");
        self.above += count("above");
        let (means, weights) = (list("means").iter(), list("weights").iter());
        let more: Vec<Centroid> = means
            .zip(weights)
            .filter_map(|pair| match pair {
                (Value::Double(mean), Value::Double(weight)) => Some(Centroid { mean, weight }),
                _ => None,
            })
            .collect();
        if let (Value::Double(least), Value::Double(largest), false) =
            (part.get("least"), part.get("largest"), more.is_empty())
        {
            let none = self.centroids.is_empty();
            self.least = if none { least } else { self.least.min(least) };
            self.largest = if none { largest } else { self.largest.max(largest) };
            self.digest(more);
        }
        list("kept").iter().filter_map(number::as_f64).for_each(|n| self.add(n));
    }
}

/// The value at `rank` on the line between two points of rank and value.
fn interpolated(from: (f64, f64), to: (f64, f64), rank: f64) -> f64 {
    let width = to.0 - from.0;
    if width <= 0.0 {
        return to.1;
    }
    let part = ((rank - from.0) / width).clamp(0.0, 1.0);
    // Multiplies before adding, because the difference of two huge numbers could be infinite.
    let value = from.1 * (1.0 - part) + to.1 * part;
    value.clamp(from.1.min(to.1), from.1.max(to.1))
}

/// Joins neighbours as long as they stay within one step of the scale function, which is steep at both ends.
fn merged(sorted: &[Centroid], total: f64) -> Vec<Centroid> {
    let scale = |share: f64| {
        COMPRESSION / (2.0 * std::f64::consts::PI) * (2.0 * share.clamp(0.0, 1.0) - 1.0).asin()
    };
    let mut out: Vec<Centroid> = Vec::new();
    let (mut before, mut start) = (0.0, scale(0.0));
    for centroid in sorted {
        if let Some(last) = out.last_mut() {
            let weight = last.weight + centroid.weight;
            if scale((before + weight) / total) - start <= 1.0 {
                last.mean += (centroid.mean / weight - last.mean / weight) * centroid.weight;
                last.weight = weight;
                continue;
            }
            before += last.weight;
            start = scale(before / total);
        }
        out.push(*centroid);
    }
    out
}

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;

    use super::*;

    /// Pseudorandom numbers below one.
    fn random(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed | 1;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        })
    }

    fn digest_of(numbers: &[f64]) -> Digest {
        let mut digest = Digest::default();
        numbers.iter().for_each(|n| digest.add(*n));
        digest
    }

    fn copied(digest: &Digest) -> DocBuf {
        DocBuf::build(|out| digest.partial(out.slot("d")))
    }

    /// The difference between the rank of `found` among sorted numbers and the rank of the share, as a share of the
    /// count.
    fn rank_error(sorted: &[f64], found: f64, share: f64) -> f64 {
        let count = sorted.len() as f64;
        let wanted = (share * count).ceil().max(1.0);
        let first = sorted.partition_point(|n| *n < found) as f64 + 1.0;
        let last = sorted.partition_point(|n| *n <= found) as f64;
        let miss = if wanted < first { first - wanted } else { (wanted - last).max(0.0) };
        miss / count
    }

    #[test]
    fn few_numbers_are_answered_exactly() {
        for count in [1_usize, 2, 3, 10, 999, KEPT_MAX] {
            let numbers: Vec<f64> = random(count as u64).take(count).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let mut digest = digest_of(&numbers);
            for share in [0.0, 0.001, 0.25, 0.5, 0.999, 1.0] {
                let rank = ((share * count as f64).ceil() as usize).max(1);
                assert_eq!(digest.at(share), Some(sorted[rank - 1]), "{share} of {count}");
            }
        }
    }

    #[test]
    fn many_numbers_are_answered_within_the_bound_in_bounded_memory() {
        let shapes: [fn(f64) -> f64; 4] =
            [|u| u, |u| (1.0 / (1.0 - u)).powi(3), |u| (u * 20.0).floor(), |u| (u - 0.5) * 1e308];
        for (at, shape) in shapes.into_iter().enumerate() {
            let mut numbers: Vec<f64> = random(at as u64 + 7).take(200_000).map(shape).collect();
            if at == 0 {
                numbers.sort_unstable_by(f64::total_cmp);
            }
            let mut digest = digest_of(&numbers);
            assert!(digest.bytes() < 256 << 10);
            numbers.sort_unstable_by(f64::total_cmp);
            for share in [0.0, 0.0001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.9999, 1.0] {
                let found = digest.at(share).unwrap();
                let most = 0.002 * f64::sqrt(share * (1.0 - share)) + 1e-5;
                let error = rank_error(&numbers, found, share);
                // If distinct numbers are few, an interpolated value is correct as well.
                assert!(error <= most || at == 2, "shape {at} at {share}: {error} > {most}");
            }
            assert_eq!(digest.at(0.0), numbers.first().copied());
            assert_eq!(digest.at(1.0), numbers.last().copied());
        }
    }

    #[test]
    fn merging_parts_is_as_good_as_one_digest() {
        let numbers: Vec<f64> = random(3).take(120_000).collect();
        let mut total = Digest::default();
        for part in numbers.chunks(25_000) {
            total.merge(copied(&digest_of(part)).get("d").as_doc().unwrap());
        }
        let mut sorted = numbers;
        sorted.sort_unstable_by(f64::total_cmp);
        for share in [0.0, 0.001, 0.5, 0.999, 1.0] {
            let error = rank_error(&sorted, total.at(share).unwrap(), share);
            assert!(error <= 0.001, "{share}: {error}");
        }
        assert!(total.bytes() < 256 << 10);
    }

    #[test]
    fn infinities_have_ranks_and_no_number_has_none() {
        let mut digest = digest_of(&[f64::INFINITY, 1.0, f64::NAN, f64::NEG_INFINITY, 2.0]);
        assert_eq!(digest.at(0.0), Some(f64::NEG_INFINITY));
        assert_eq!(digest.at(0.5), Some(1.0));
        assert_eq!(digest.at(0.75), Some(2.0));
        assert_eq!(digest.at(1.0), Some(f64::INFINITY));
        let doc = copied(&digest);
        let mut other = Digest::default();
        other.merge(doc.get("d").as_doc().unwrap());
        other.merge(doc.get("d").as_doc().unwrap());
        assert_eq!(other.at(0.25), Some(f64::NEG_INFINITY));
        assert_eq!(other.at(0.5), Some(1.0));
        assert_eq!(digest_of(&[f64::NAN]).at(0.5), None);
    }
}
