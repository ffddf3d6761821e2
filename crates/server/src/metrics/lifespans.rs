//! How long cursors were open.

use nagi_bson::DocWriter;

use super::Counter;

/// A name and its upper bound in milliseconds.
static BUCKETS: [(&str, i64); 7] = [
    ("lessThan1Second", 1_000),
    ("lessThan5Seconds", 5_000),
    ("lessThan15Seconds", 15_000),
    ("lessThan30Seconds", 30_000),
    ("lessThan1Minute", 60_000),
    ("lessThan10Minutes", 600_000),
    ("greaterThanOrEqual10Minutes", i64::MAX),
];

/// Numbers of cursors that were closed, by the time that they were open.
#[derive(Default)]
pub(crate) struct Lifespans([Counter; BUCKETS.len()]);

fn bucket(open_ms: i64) -> usize {
    BUCKETS.iter().position(|(_, most)| open_ms < *most).unwrap_or(BUCKETS.len() - 1)
}

impl Lifespans {
    pub(crate) fn record(&self, open_ms: i64) {
        self.0[bucket(open_ms)].increment();
    }

    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        for ((name, _), counter) in BUCKETS.iter().zip(&self.0) {
            out.put(name, counter.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_ends_before_its_bound() {
        let name = |ms| BUCKETS[bucket(ms)].0;
        assert_eq!((name(-5), name(0), name(999)), (BUCKETS[0].0, BUCKETS[0].0, BUCKETS[0].0));
        assert_eq!(name(1_000), "lessThan5Seconds");
        assert_eq!((name(59_999), name(60_000)), ("lessThan1Minute", "lessThan10Minutes"));
        assert_eq!(name(600_000), "greaterThanOrEqual10Minutes");
        assert_eq!(name(i64::MAX), "greaterThanOrEqual10Minutes");
    }
}
