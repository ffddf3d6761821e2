//! What inserts into time series have done since the server started: for each collection, and for all together.
//!
//! The names are those of MongoDB. Those of mechanisms that this server has not (buckets that are archived for want of
//! memory, writers that wait for each other) stay zero, because the events do not occur.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use nagi_bson::DocWriter;
use nagi_store::Collection;
use nagi_timeseries::bucket::Refused;

use super::open_buckets::{self, OpenBuckets};

/// An event; the number is the position in [`NAMES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Inserted = 0,
    Updated = 1,
    /// A bucket was begun because none of its metadata was known.
    NewMeta = 2,
    ClosedByCount = 3,
    ClosedBySchema = 4,
    ClosedBySize = 5,
    /// A bucket was begun because a measurement was after the span of the latest one.
    Later = 6,
    Committed = 9,
    Measured = 12,
    /// A bucket was begun because a measurement was before the begin of the latest one.
    Earlier = 15,
    /// A stored bucket that was not in memory got measurements.
    Reopened = 16,
    KeptForLargeMeasurements = 17,
    Fetched = 21,
    Queried = 22,
    FetchFailed = 23,
    QueryFailed = 24,
    ReopeningFailed = 25,
}

const NAMES: [&str; 27] = [
    "numBucketInserts",
    "numBucketUpdates",
    "numBucketsOpenedDueToMetadata",
    "numBucketsClosedDueToCount",
    "numBucketsClosedDueToSchemaChange",
    "numBucketsClosedDueToSize",
    "numBucketsClosedDueToTimeForward",
    "numBucketsClosedDueToTimeBackward",
    "numBucketsClosedDueToMemoryThreshold",
    "numCommits",
    "numMeasurementsGroupCommitted",
    "numWaits",
    "numMeasurementsCommitted",
    "numBucketsClosedDueToReopening",
    "numBucketsArchivedDueToMemoryThreshold",
    "numBucketsArchivedDueToTimeBackward",
    "numBucketsReopened",
    "numBucketsKeptOpenDueToLargeMeasurements",
    "numBucketsClosedDueToCachePressure",
    "numBucketsFrozen",
    "numCompressedBucketsConvertedToUnsorted",
    "numBucketsFetched",
    "numBucketsQueried",
    "numBucketFetchesFailed",
    "numBucketQueriesFailed",
    "numBucketReopeningsFailed",
    "numDuplicateBucketsReopened",
];

/// The events of one attempt of a transaction, which count if it commits.
#[derive(Default, Debug)]
pub(super) struct Tally(Vec<(Event, u64)>);

impl Tally {
    pub(super) fn add(&mut self, event: Event, count: u64) {
        match self.0.iter_mut().find(|(other, _)| *other == event) {
            Some((_, total)) => *total += count,
            None => self.0.push((event, count)),
        }
    }

    /// A bucket was begun although others of its metadata were known: they refused a measurement.
    pub(super) fn add_begun(&mut self, refused: impl Iterator<Item = Refused>) {
        let reason = refused.map(|refused| match refused {
            Refused::Earlier => Event::Earlier,
            Refused::Later => Event::Later,
            Refused::Count => Event::ClosedByCount,
            Refused::Size => Event::ClosedBySize,
            Refused::Schema => Event::ClosedBySchema,
        });
        // The latest bucket is the first.
        self.add(reason.into_iter().next().unwrap_or(Event::NewMeta), 1);
    }

    pub(super) fn append(&mut self, other: Tally) {
        other.0.into_iter().for_each(|(event, count)| self.add(event, count));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The counts of a collection.
#[derive(Default)]
pub(super) struct Counts([AtomicU64; NAMES.len()]);

static ALL: LazyLock<Counts> = LazyLock::new(Counts::default);

impl Counts {
    fn get(&self, event: Event) -> u64 {
        self.0[event as usize].load(Relaxed)
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        for (name, count) in NAMES.iter().zip(&self.0) {
            out.put(name, count.load(Relaxed) as i64);
            if *name == NAMES[Event::Measured as usize] {
                let (commits, all) = (self.get(Event::Committed), self.get(Event::Measured));
                if let Some(mean) = all.checked_div(commits) {
                    out.put("avgNumMeasurementsPerCommit", mean as i64);
                }
            }
        }
    }
}

/// Counts events of a collection of buckets.
pub(super) fn count(buckets: &Collection, tally: &Tally) {
    let open = buckets.write_annotations().get_or_make::<OpenBuckets>();
    for (event, count) in &tally.0 {
        for counts in [&open.counts, &*ALL] {
            counts.0[*event as usize].fetch_add(*count, Relaxed);
        }
    }
}

/// Counts one event, whether or not its transaction commits.
pub(super) fn count_one(buckets: &Collection, event: Event) {
    count(buckets, &Tally(vec![(event, 1)]));
}

/// Writes the counts of a collection of buckets, for its statistics.
pub(crate) fn write_counts(buckets: &Collection, out: &mut DocWriter<'_>) {
    buckets.write_annotations().get_or_make::<OpenBuckets>().counts.write(out);
}

/// Writes the section `bucketCatalog` of `serverStatus`. The cost is proportional to the number of time series that got
/// measurements, and of their open buckets.
pub fn write_bucket_catalog(out: &mut DocWriter<'_>) {
    let open_buckets::Figures { known, unpacked, bytes } = OpenBuckets::figures();
    out.put("numBuckets", known as i64);
    out.put("numOpenBuckets", unpacked as i64);
    // One that is being changed is taken out.
    out.put("numIdleBuckets", unpacked as i64);
    out.put("memoryUsage", bytes as i64);
    ALL.write(out);
    out.doc("stateManagement", |out| {
        out.put("bucketsManaged", known as i64);
        out.put("currentEra", 0_i64);
        out.put("erasWithRemainingBuckets", 0_i64);
        out.put("trackedClearOperations", 0_i64);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_names() {
        for (event, name) in [
            (Event::Inserted, "numBucketInserts"),
            (Event::NewMeta, "numBucketsOpenedDueToMetadata"),
            (Event::ClosedBySize, "numBucketsClosedDueToSize"),
            (Event::Later, "numBucketsClosedDueToTimeForward"),
            (Event::Committed, "numCommits"),
            (Event::Measured, "numMeasurementsCommitted"),
            (Event::Earlier, "numBucketsArchivedDueToTimeBackward"),
            (Event::Reopened, "numBucketsReopened"),
            (Event::Fetched, "numBucketsFetched"),
            (Event::ReopeningFailed, "numBucketReopeningsFailed"),
        ] {
            assert_eq!(NAMES[event as usize], name);
        }
    }

    #[test]
    fn a_bucket_is_begun_for_the_reason_of_the_latest_one() {
        let mut tally = Tally::default();
        tally.add_begun([Refused::Later, Refused::Earlier].into_iter());
        tally.add_begun(std::iter::empty());
        tally.add_begun([Refused::Later].into_iter());
        assert_eq!(tally.0, [(Event::Later, 2), (Event::NewMeta, 1)]);
    }
}
