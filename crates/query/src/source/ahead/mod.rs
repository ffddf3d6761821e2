//! Read-ahead of records: several records are read in one call of the engine before they are requested.
//!
//! Reading one record costs a search through the engine's files and two or three CPU cache misses. When the engine
//! gets many ids at once, it interleaves the searches; and because they are sorted, neighbouring ids share a block.
//!
//! The first record is read alone, then 2, 4, 8, ... at once. A query for one document pays for one, and a query
//! for a first batch of 101 pays for 101. Records that were read but never requested cost at most as much as the
//! requested ones. If a limit tells how many documents are wanted, the first read has up to 32 of them. After
//! some hundred records, a worker thread reads half of each batch if a core is free ([`helped`]).
//!
//! If a read is a round trip to another machine, the first one has a first batch of 101, unless the collection's
//! records are too large for that.
//!
//! Memory: [`BYTES_MAX`] and two records; the branches of a merge share it.

mod helped;
mod part;

use std::ops::Range;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{Collection, RECORDS_AT_ONCE, RecordId, RecordKey};

use self::part::{Held, Part};
use super::Cx;
use crate::limits::{RECORDS_AHEAD_MAX, RECORDS_HELPED_MAX};

/// Limit of the bytes of records that a plan keeps before they are requested.
const BYTES_MAX: usize = 1 << 20;

/// Records of the first read if it is a round trip: a client's first batch.
const FAR_FIRST: usize = 101;

/// Records that were read and are not yet taken.
pub(crate) struct Ahead {
    /// The records in the order of the requests, each with its position in `sorted`.
    entries: Vec<(RecordId, u32)>,
    /// Position of the next entry to take.
    next: usize,
    /// The ids in ascending order. The first part has read those before `split`, the second the others.
    sorted: Vec<RecordId>,
    split: usize,
    parts: [Part; 2],
    /// End of the bytes of the first part's records. A record that exceeded the memory may follow.
    end: usize,
    /// Number of records of the next read.
    step: usize,
    /// Approximate size of a record in bytes; 0 until one was read.
    record_bytes: usize,
    /// Average size of a record of the collection; 0: unknown.
    mean_bytes: usize,
    /// Number of documents still wanted, if it is known.
    wanted: Option<u64>,
    bytes_max: usize,
    /// Positions in `entries`, sorted by record; kept to reuse its memory.
    order: Vec<u32>,
}

/// The location of a record's bytes.
#[derive(Clone, Default)]
pub(crate) struct Place {
    part: usize,
    range: Range<usize>,
}

/// The result for a requested record.
pub(crate) enum Taken {
    /// It does not exist any more.
    Gone,
    At(Place),
}

/// The number of records of the first read: one, or as many as one call of the engine reads if all of them are
/// wanted.
fn first_step(wanted: Option<u64>) -> usize {
    match wanted {
        None => 1,
        Some(wanted) => RECORDS_AT_ONCE.min(usize::try_from(wanted).unwrap_or(usize::MAX)).max(1),
    }
}

impl Ahead {
    /// `wanted` is the largest number of documents that will be requested, if it is known. `beside` is the number
    /// of others that read ahead for the same plan and share the memory.
    pub(crate) fn new(wanted: Option<u64>, beside: usize) -> Ahead {
        Ahead {
            entries: Vec::new(),
            next: 0,
            sorted: Vec::new(),
            split: 0,
            parts: Default::default(),
            end: 0,
            step: first_step(wanted),
            record_bytes: 0,
            mean_bytes: 0,
            wanted,
            bytes_max: BYTES_MAX / (beside + 1),
            order: Vec::new(),
        }
    }

    /// The average size of a record, for the first read if it is a round trip.
    pub(crate) fn of_mean(mut self, bytes: usize) -> Ahead {
        self.mean_bytes = bytes;
        self
    }

    /// Returns true if every record that was read ahead is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.entries.len()
    }

    /// The number of records to pass to [`Ahead::read`]; 1 if reading ahead does not pay. It grows with every call.
    pub(crate) fn step(&mut self, cx: &Cx<'_>) -> usize {
        let wanted = self.wanted.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let (mut record_bytes, mut least) = (self.record_bytes, 1);
        if cx.reader.is_far() {
            // Each of several that read ahead for one plan has its share.
            least = FAR_FIRST * self.bytes_max / BYTES_MAX;
            record_bytes = if record_bytes == 0 { self.mean_bytes } else { record_bytes };
        }
        let fitting = self.bytes_max / record_bytes.max(1);
        let interrupt = cx.env.interrupt();
        let max = match interrupt.records_ahead_max() {
            // More at once only where a worker reads half of them.
            RECORDS_AHEAD_MAX if interrupt.may_help() => RECORDS_HELPED_MAX,
            max => max,
        };
        let step = self.step.max(least).min(wanted).min(fitting).min(max).max(1);
        self.step = match self.step {
            // A first batch is complete after 1 + 2 + ... + 32 + 38 = 101.
            32 => 38,
            38 => 64,
            step => (step * 2).min(RECORDS_HELPED_MAX),
        };
        step
    }

    /// Reads the records, which will be taken in this order. Records from an earlier read are dropped.
    pub(crate) fn read(
        &mut self,
        collection: &Collection,
        ids: &[RecordId],
        cx: &Cx<'_>,
    ) -> Result<()> {
        self.forget();
        self.sort(ids);
        if !self.read_by_two(collection, cx)? {
            self.split = ids.len();
            let (bytes_max, interrupt) = (self.bytes_max, cx.env.interrupt());
            self.parts[0].read((cx.reader, collection), &self.sorted, bytes_max, interrupt)?;
        }
        self.end = self.parts[0].bytes.len();
        let count: usize = self.parts.iter().map(Part::count).sum();
        self.record_bytes = (self.end + self.parts[1].bytes.len()) / count.max(1);
        Ok(())
    }

    /// Sets the entries, and their order by record.
    fn sort(&mut self, ids: &[RecordId]) {
        self.order.clear();
        self.order.extend(0..ids.len() as u32);
        self.order.sort_unstable_by(|a, b| ids[*a as usize].cmp(&ids[*b as usize]));
        self.sorted.clear();
        self.sorted.extend(self.order.iter().map(|at| ids[*at as usize].clone()));
        self.entries.extend(ids.iter().map(|id| (id.clone(), 0)));
        for (position, at) in self.order.iter().enumerate() {
            self.entries[*at as usize].1 = position as u32;
        }
    }

    /// Takes the record `id`, which must come next among those that were read; records before it are skipped. If it
    /// was not read ahead, it is read here.
    pub(crate) fn take(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        cx: &Cx<'_>,
    ) -> Result<Taken> {
        if let Some(wanted) = &mut self.wanted {
            *wanted = wanted.saturating_sub(1);
        }
        while self.next < self.entries.len() {
            let (other, position) = &self.entries[self.next];
            self.next += 1;
            if *other != id {
                continue;
            }
            let position = *position as usize;
            let (part, at) = match position.checked_sub(self.split) {
                None => (0, position),
                Some(at) => (1, at),
            };
            match self.parts[part].held(at) {
                Held::Gone => return Ok(Taken::Gone),
                Held::At(range) => return Ok(Taken::At(Place { part, range })),
                Held::Unread => break,
            }
        }
        self.read_one(collection, id, cx)
    }

    /// Reads a record into the first part, after those that are still to be taken.
    fn read_one(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        cx: &Cx<'_>,
    ) -> Result<Taken> {
        if self.is_empty() {
            self.forget();
        }
        let Part { bytes, buf, .. } = &mut self.parts[0];
        let Some(doc) = cx.reader.record(collection, id, buf)? else {
            return Ok(Taken::Gone);
        };
        bytes.truncate(self.end);
        bytes.extend_from_slice(doc.as_bytes());
        if doc.len() > BYTES_MAX {
            // One copy is enough.
            *buf = Default::default();
        }
        Ok(Taken::At(Place { part: 0, range: self.end..bytes.len() }))
    }

    /// The document of the record taken last.
    pub(crate) fn doc(&self, at: &Place) -> Doc<'_> {
        Doc::trusted(&self.parts[at.part].bytes[at.range.clone()])
    }

    /// Drops all records, because another snapshot will be read. The next reads are small again.
    pub(crate) fn forget_state(&mut self) {
        self.forget();
        self.parts.iter_mut().for_each(Part::forget);
        self.step = first_step(self.wanted);
    }

    fn forget(&mut self) {
        self.entries.clear();
        self.next = 0;
        self.parts.iter_mut().for_each(Part::clear);
        self.end = 0;
    }
}
