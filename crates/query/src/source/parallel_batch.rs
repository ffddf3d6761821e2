//! Parallel batch: a cursor's batch is filled from a collection scan by two threads if a core is free.
//!
//! ```text
//!   records  ... | this thread -> receiver | worker -> memory | ...
//!                                            then memory -> receiver, then the next fork
//! ```
//!
//! It serves plans that derive at most one document from each record: scans with a filter, a projection, or stages that
//! map documents. The receiver gets the documents in the order of one thread. What the worker has gathered when the
//! batch is full is dropped, and read again from the snapshot of the next batch, so a cursor holds no document between
//! two batches. The other rules are those of a parallel scan ([`super::parallel_scan`]).

use std::time::{Duration, Instant};

use nagi_bson::Doc;
use nagi_error::{Error, Result};
use nagi_store::RecordId;

use super::{
    Cx, Env, Gather, Source,
    parallel_scan::{Ended, Lent, both},
    sum_stats,
};
use crate::ExecutionStats;

/// Records that are read before a fork; most queries end before. Also the number between two attempts.
const BEFORE_RECORDS: u64 = 3_000;
/// Records of each thread in the first fork. Later ones are adapted to [`FORK_TIME`].
const RECORDS: i64 = 4_096;
const RECORDS_MAX: i64 = 256 << 10;
/// Fewer records for each thread do not pay: a worker begins in the time of some hundred.
pub(super) const RECORDS_MIN: i64 = 1_024;
const FORK_TIME: Duration = Duration::from_millis(16);
/// The worker stops when its documents, and their places, take more than this.
const LATER_BYTES: usize = 4 << 20;

/// A source that was forked off, and the last record that it may read.
pub(crate) struct Fork {
    pub(crate) later: Box<dyn Source>,
    pub(crate) up_to: RecordId,
}

/// A record from which a document was derived.
#[derive(Clone)]
pub(crate) struct Placed {
    pub(crate) record: RecordId,
    /// The number of records that its source has examined up to it.
    pub(crate) examined: u64,
}

/// What the receiver of a batch has done with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    More,
    /// It took the document, or has put it aside, and wants no more.
    Full,
}

/// The receiver of a batch.
pub(crate) struct Receiver<'r> {
    /// Takes a document, and tells if it takes more.
    pub(crate) take: &'r mut dyn FnMut(Doc<'_>) -> Result<Answer>,
    /// What it takes before it is full, and what it has taken in this batch.
    pub(crate) room: Room,
    pub(crate) taken: Room,
}

/// A number of documents and their bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub docs: u64,
    pub bytes: u64,
}

impl Room {
    /// Of a receiver that takes all documents.
    pub const ALL: Room = Room { docs: u64::MAX, bytes: u64::MAX };
    const NONE: Room = Room { docs: 0, bytes: 0 };
}

impl<'r> Receiver<'r> {
    pub(crate) fn new(
        room: Room,
        take: &'r mut dyn FnMut(Doc<'_>) -> Result<Answer>,
    ) -> Receiver<'r> {
        Receiver { take, room, taken: Room::NONE }
    }

    pub(crate) fn put(&mut self, doc: Doc<'_>) -> Result<Answer> {
        self.taken.docs += 1;
        self.taken.bytes += doc.len() as u64;
        (self.take)(doc)
    }

    /// The number of documents that it takes until it is full, if they are as long as those until now.
    fn docs_left(&self) -> u64 {
        let average = self.taken.bytes.checked_div(self.taken.docs).unwrap_or(1).max(1);
        let by_bytes = self.room.bytes.saturating_sub(self.taken.bytes) / average;
        self.room.docs.saturating_sub(self.taken.docs).min(by_bytes)
    }
}

/// The forks of the batches of one cursor.
pub(crate) struct ParallelBatch {
    records: i64,
    /// The records read for all batches, and the number of documents derived from them.
    read: u64,
    yielded: u64,
    /// True if the last batch had a fork.
    large: bool,
}

impl ParallelBatch {
    /// None if the source cannot be forked, or should not.
    pub(crate) fn of(root: &dyn Source) -> Option<ParallelBatch> {
        (root.forks() && root.computes()).then_some(ParallelBatch {
            records: RECORDS,
            read: 0,
            yielded: 0,
            large: false,
        })
    }

    /// Begins a batch: `advance` will fail with an exhausted budget when [`ParallelBatch::run`] is to continue.
    pub(crate) fn begin(&mut self, env: &Env<'_>) {
        let before = if std::mem::take(&mut self.large) { 1 } else { BEFORE_RECORDS };
        env.set_budget(Some(before));
    }

    /// Ends a batch.
    pub(crate) fn end(&mut self, receiver: &Receiver<'_>, env: &Env<'_>) {
        self.read += env.spent();
        self.yielded += receiver.taken.docs;
    }

    /// Delivers documents with the help of a worker, as long as it may help. Then `advance` continues.
    pub(crate) fn run(
        &mut self,
        root: &mut dyn Source,
        receiver: &mut Receiver<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Answer> {
        cx.env.set_budget(None);
        let Some(shared) = cx.reader.share() else { return Ok(Answer::More) };
        // Its memory is used by all forks.
        let mut gathered = Gathered::default();
        let mut lent = None;
        loop {
            let records = self.wanted(receiver, cx.env);
            if records < RECORDS_MIN || (lent.is_none() && !cx.env.interrupt().begin_help()) {
                cx.env.set_budget(Some(BEFORE_RECORDS));
                return Ok(Answer::More);
            }
            lent.get_or_insert_with(|| Lent(cx.env.interrupt()));
            let Some(fork) = root.fork(records, cx)? else { return Ok(Answer::More) };
            self.large = true;
            let begin = Instant::now();
            let mut answer = Answer::More;
            gathered.clear();
            let own = |cx: &mut Cx<'_>| {
                while answer == Answer::More && root.advance(cx)? {
                    answer = receiver.put(root.doc())?;
                }
                Ok(answer == Answer::More)
            };
            let (later, docs, ended) = both(own, (fork.later, gathered), shared, cx)?;
            gathered = docs;
            if answer == Answer::Full || ended == Ended::Failed {
                root.rejoin(None, 0);
                return Ok(answer);
            }
            if let Delivered::Full(place) = gathered.deliver(receiver)? {
                root.rejoin(Some(place.record), place.examined);
                return Ok(Answer::Full);
            }
            if ended == Ended::Done {
                let examined = examined(later);
                self.read += examined;
                root.rejoin(Some(fork.up_to), examined);
            } else {
                // What the worker has examined behind its last document is examined again.
                match gathered.docs.last() {
                    Some((_, place)) => root.rejoin(Some(place.record.clone()), place.examined),
                    None => root.rejoin(None, 0),
                }
                if !gathered.is_full() {
                    cx.env.set_budget(Some(BEFORE_RECORDS));
                    return Ok(Answer::More);
                }
            }
            self.adapt(begin.elapsed(), ended);
        }
    }

    /// The number of records of each thread in the next fork: no more than the batch probably needs.
    fn wanted(&self, receiver: &Receiver<'_>, env: &Env<'_>) -> i64 {
        let yielded = self.yielded + receiver.taken.docs;
        let read = self.read + env.spent();
        let Some(each) = read.checked_div(yielded) else { return self.records };
        let needed = receiver.docs_left().saturating_mul(each.max(1)) / 2;
        self.records.min(i64::try_from(needed).unwrap_or(i64::MAX))
    }

    fn adapt(&mut self, elapsed: Duration, ended: Ended) {
        if ended != Ended::Done || elapsed > 2 * FORK_TIME {
            self.records = (self.records / 2).max(RECORDS_MIN);
        } else if elapsed < FORK_TIME {
            self.records = (self.records * 2).min(RECORDS_MAX);
        }
    }
}

fn examined(mut source: Box<dyn Source>) -> u64 {
    let mut stats = ExecutionStats::default();
    sum_stats(&mut *source, &mut stats);
    stats.docs_examined
}

/// The documents of the worker.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    /// The end of each in the bytes, and its record.
    docs: Vec<(usize, Placed)>,
}

enum Delivered {
    All,
    /// The receiver is full; this is the place of the last document that it took or put aside.
    Full(Placed),
}

impl Gathered {
    fn clear(&mut self) {
        self.bytes.clear();
        self.docs.clear();
    }

    fn deliver(&self, receiver: &mut Receiver<'_>) -> Result<Delivered> {
        let mut begin = 0;
        for (end, place) in &self.docs {
            if receiver.put(Doc::trusted(&self.bytes[begin..*end]))? == Answer::Full {
                return Ok(Delivered::Full(place.clone()));
            }
            begin = *end;
        }
        Ok(Delivered::All)
    }
}

impl Gather for Gathered {
    fn take(&mut self, input: &dyn Source, _cx: &mut Cx<'_>) -> Result<()> {
        let place = input.place();
        let place = place.ok_or_else(|| Error::bug("a forked source has no record"))?;
        self.bytes.extend_from_slice(input.doc().as_bytes());
        self.docs.push((self.bytes.len(), place));
        Ok(())
    }

    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Self>> {
        Ok(None)
    }

    fn join(&mut self, _later: Self, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.docs.len() * size_of::<(usize, Placed)>() > LATER_BYTES
    }
}
