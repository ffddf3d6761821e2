//! The share of the cache for compressed blocks.
//!
//! A compressed block takes a fraction of the memory and costs some microseconds more per hit, far less than a read
//! from disk. So the tier is made large enough that all data stays in memory, compressed or not. If that is
//! impossible, it takes most of the cache; if everything fits uncompressed, or the data does not compress, it is
//! nearly zero.

/// RocksDB cannot enlarge a tier of size zero again.
pub(crate) const LEAST_PERCENT: u32 = 1;
const MOST_PERCENT: u32 = 60;
/// A smaller change does not justify moving memory.
const STEP_PERCENT: u32 = 5;
/// If data compresses less than to four fifths, the tier does not pay.
const RATIO_MIN: f64 = 1.25;
/// Blocks that compress better are small anyway.
const RATIO_MAX: f64 = 20.0;
/// The part of the cache that remains for data besides indexes, filters and memtables.
const DATA_PART: f64 = 0.9;

/// Sizes of the tables in bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Uncompressed keys and values.
    pub(crate) raw: u64,
    /// Their blocks in the files.
    pub(crate) packed: u64,
}

impl Sizes {
    /// Adds the sizes from RocksDB's property `aggregated-table-properties`.
    pub(crate) fn add(&mut self, properties: &str) {
        let number = |name: &str| {
            let fields = properties.split(';').map(str::trim);
            let value = fields.filter_map(|field| field.strip_prefix(name)).next();
            value.and_then(|text| text.strip_prefix('=')?.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let raw = number("raw key size").saturating_add(number("raw value size"));
        self.raw = self.raw.saturating_add(raw);
        self.packed = self.packed.saturating_add(number("data block size"));
    }

    /// Without entries that take `packed` bytes in files.
    pub(crate) fn without(self, packed: u64) -> Sizes {
        let left = self.packed.saturating_sub(packed);
        let part = left as f64 / (self.packed as f64).max(1.0);
        Sizes { raw: (self.raw as f64 * part) as u64, packed: left }
    }
}

/// Returns true if a cache of `capacity` bytes has space for all data, uncompressed.
pub(crate) fn all_fits(sizes: Sizes, capacity: u64) -> bool {
    sizes.raw as f64 <= capacity as f64 * DATA_PART
}

/// The tier's share of a cache of `capacity` bytes, in percent.
pub(crate) fn percent(sizes: Sizes, capacity: u64) -> u32 {
    let raw = sizes.raw as f64;
    let ratio = raw / (sizes.packed as f64).max(1.0);
    if all_fits(sizes, capacity) || ratio < RATIO_MIN {
        return LEAST_PERCENT;
    }
    let capacity = capacity as f64 * DATA_PART;
    // A compressed block takes 1 / ratio: (capacity - tier) + tier * ratio = raw.
    let tier = (raw - capacity) / (ratio - 1.0);
    ((tier / capacity.max(1.0) * 100.0) as u32 + STEP_PERCENT).min(MOST_PERCENT)
}

/// Uncompressed bytes in each byte of a cache that has `percent` of its size for compressed blocks.
pub(crate) fn density(sizes: Sizes, percent: u32) -> f64 {
    let ratio = (sizes.raw as f64 / (sizes.packed as f64).max(1.0)).clamp(1.0, RATIO_MAX);
    1.0 + f64::from(percent) / 100.0 * (ratio - 1.0)
}

/// Returns true if a change is worthwhile.
pub(crate) fn differs(now: u32, wanted: u32) -> bool {
    now.abs_diff(wanted) >= STEP_PERCENT || (wanted == LEAST_PERCENT && now != wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn it_is_as_large_as_it_must_be() {
        let of = |raw: u64, packed: u64| percent(Sizes { raw, packed }, GIB);
        assert_eq!(of(0, 0), LEAST_PERCENT);
        // The data fits, or does not compress.
        assert_eq!(of(GIB / 2, GIB / 8), LEAST_PERCENT);
        assert!(all_fits(Sizes { raw: GIB / 2, packed: GIB / 8 }, GIB));
        assert!(!all_fits(Sizes { raw: GIB, packed: GIB / 8 }, GIB));
        assert_eq!(of(4 * GIB, 4 * GIB), LEAST_PERCENT);
        // Twice the cache at three to one: half of it.
        let half = of(2 * GIB, 2 * GIB / 3);
        assert!((55..=60).contains(&half), "{half}");
        let little = of(GIB, GIB / 4);
        assert!((5..15).contains(&little), "{little}");
        assert_eq!(of(100 * GIB, 25 * GIB), MOST_PERCENT);
    }

    #[test]
    fn a_byte_of_the_tier_has_more() {
        let of = |raw, packed, percent| density(Sizes { raw, packed }, percent);
        assert_eq!((of(300, 100, 0), of(300, 100, 50), of(100, 300, 50)), (1.0, 2.0, 1.0));
        assert_eq!((of(0, 0, 50), of(u64::MAX, 0, 100)), (1.0, RATIO_MAX));
    }

    #[test]
    fn properties_are_read() {
        let mut sizes = Sizes::default();
        sizes.add("# data blocks=2; raw key size=10; raw average key size=5.0; raw value size=90");
        sizes.add("; data block size=40; x");
        sizes.add("nothing of use");
        assert_eq!(sizes, Sizes { raw: 100, packed: 40 });
        assert_eq!(sizes.without(10), Sizes { raw: 75, packed: 30 });
        assert_eq!(sizes.without(50), Sizes::default());
        assert_eq!(Sizes::default().without(1), Sizes::default());
    }

    #[test]
    fn small_changes_are_left_out() {
        assert!(!differs(30, 33) && differs(30, 35) && differs(4, LEAST_PERCENT));
        assert!(!differs(LEAST_PERCENT, LEAST_PERCENT));
    }
}
