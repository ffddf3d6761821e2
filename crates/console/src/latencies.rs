//! Operations by the time that they took: differences of the server's histograms.

use nagi_bson::{Doc, Value, number};

/// The kinds of operations, as in `opLatencies`.
pub(crate) const KINDS: [&str; 3] = ["reads", "writes", "commands"];
/// The same in the label `kind` of metrics: counters and histograms have the same values.
pub(crate) const LABELS: [&str; 3] = ["read", "write", "command"];

/// Buckets and numbers of operations of one kind; empty buckets are left out.
pub(crate) type Counts = Vec<(u64, u64)>;

/// Operations that ended between two samples, by kind: lower bound of the time in microseconds, and how many.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ended(pub(crate) [Counts; 3]);

impl Ended {
    /// The number of reads and writes.
    pub(crate) fn operations(&self) -> u64 {
        self.0[..2].iter().flatten().map(|(_, count)| count).sum()
    }
}

/// The histograms of a `serverStatus`.
pub(crate) fn totals(status: Doc<'_>) -> [Counts; 3] {
    let latencies = status.get("opLatencies").as_doc();
    KINDS.map(|kind| {
        let of_kind = latencies.and_then(|all| all.get(kind).as_doc());
        let Some(Value::Array(buckets)) = of_kind.map(|kind| kind.get("histogram")) else {
            return Vec::new();
        };
        let number = |value: Value<'_>| number::as_f64(value).map(|n| n as u64);
        let read = |bucket: Value<'_>| {
            let bucket = bucket.as_doc()?;
            Some((number(bucket.get("micros"))?, number(bucket.get("count"))?))
        };
        buckets.iter().filter_map(read).collect()
    })
}

/// What was added to histograms. Buckets are sorted by their bounds.
pub(crate) fn difference(before: &[Counts; 3], after: &[Counts; 3]) -> Ended {
    let one = |at: usize| {
        let old = |bound: u64| {
            let found = before[at].binary_search_by_key(&bound, |(bound, _)| *bound);
            found.map_or(0, |place| before[at][place].1)
        };
        let grown =
            after[at].iter().map(|(bound, count)| (*bound, count - old(*bound).min(*count)));
        grown.filter(|(_, count)| *count > 0).collect()
    };
    Ended([one(0), one(1), one(2)])
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;

    use super::*;

    #[test]
    fn what_ended_between_two_samples() {
        let status = doc! { "opLatencies": {
            "reads": { "histogram": [{ "micros": 2_i64, "count": 5_i64 }, { "micros": 1024_i64, "count": 1_i64 }] },
            "writes": { "histogram": [] }
        } };
        let after = totals(status.as_doc());
        assert_eq!(after, [vec![(2, 5), (1024, 1)], vec![], vec![]]);
        let ended = difference(&[vec![(2, 3)], vec![], vec![]], &after);
        assert_eq!(ended.0[0], [(2, 2), (1024, 1)]);
        assert_eq!(ended.operations(), 3);
        assert_eq!(difference(&after, &after), Ended::default());
    }
}
