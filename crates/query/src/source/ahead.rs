//! Read-ahead of records: several records are read in one call of the engine before they are requested.
//!
//! Reading one record costs a search through the engine's files and two or three CPU cache misses. When the engine
//! gets many ids at once, it interleaves the searches; and because they are sorted, neighbouring ids share a block.
//!
//! The first record is read alone, then 2, 4, 8, ... at once. A query for one document pays for one, and a query
//! for a first batch of 101 pays for 101. Records that were read but never requested cost at most as much as the
//! requested ones. If a limit tells how many documents are wanted, the first read has up to 32 of them.
//!
//! Memory: [`BYTES_MAX`] and one record; the branches of a merge share it.

use std::ops::Range;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{Collection, NearRecords, RECORDS_AT_ONCE, RecordBuf, RecordId, RecordKey};

use super::Cx;
use crate::limits::RECORDS_AHEAD_MAX;

/// Limit of the bytes of records that a plan keeps before they are requested.
const BYTES_MAX: usize = 1 << 20;

/// Records that were read and are not yet taken.
pub(crate) struct Ahead {
    entries: Vec<(RecordId, Held)>,
    /// Position of the next entry to take.
    next: usize,
    /// The bytes of the records, one after another.
    bytes: Vec<u8>,
    /// End of the bytes of `entries`. A record that exceeded the memory may follow.
    end: usize,
    /// Number of records of the next read.
    step: usize,
    /// Approximate size of a record in bytes; 0 until one was read.
    record_bytes: usize,
    /// Number of documents still wanted, if it is known.
    wanted: Option<u64>,
    bytes_max: usize,
    /// Positions in `entries`, sorted by record; kept to reuse its memory.
    order: Vec<u32>,
    sorted: Vec<RecordId>,
    buf: RecordBuf,
    near: NearRecords,
}

enum Held {
    /// Not read, because it exceeded the memory.
    Unread,
    Gone,
    At(Range<usize>),
}

/// The result for a requested record.
pub(crate) enum Taken {
    /// It does not exist any more.
    Gone,
    At(Range<usize>),
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
            bytes: Vec::new(),
            end: 0,
            step: first_step(wanted),
            record_bytes: 0,
            wanted,
            bytes_max: BYTES_MAX / (beside + 1),
            order: Vec::new(),
            sorted: Vec::new(),
            buf: RecordBuf::default(),
            near: NearRecords::default(),
        }
    }

    /// Returns true if every record that was read ahead is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.entries.len()
    }

    /// The number of records to pass to [`Ahead::read`]; 1 if reading ahead does not pay. It grows with every call.
    pub(crate) fn step(&mut self, cx: &Cx<'_>) -> usize {
        let wanted = self.wanted.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let fitting = self.bytes_max / self.record_bytes.max(1);
        let max = cx.env.interrupt().records_ahead_max();
        let step = self.step.min(wanted).min(fitting).min(max).max(1);
        self.step = match self.step {
            // A first batch is complete after 1 + 2 + ... + 32 + 38 = 101.
            32 => 38,
            38 => 64,
            step => (step * 2).min(RECORDS_AHEAD_MAX),
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
        self.entries.extend(ids.iter().map(|id| (id.clone(), Held::Unread)));
        self.order.clear();
        self.order.extend(0..ids.len() as u32);
        self.order.sort_unstable_by(|a, b| ids[*a as usize].cmp(&ids[*b as usize]));
        self.sorted.clear();
        self.sorted.extend(self.order.iter().map(|at| ids[*at as usize].clone()));
        let mut done = 0;
        for part in self.sorted.chunks(RECORDS_AT_ONCE) {
            // Each of them may have to be read from disk.
            cx.env.interrupt().check()?;
            let (entries, bytes, order) = (&mut self.entries, &mut self.bytes, &self.order);
            let (bytes_max, count) = (self.bytes_max, ids.len());
            let visit = &mut |at: usize, doc: Option<Doc<'_>>| {
                let held = &mut entries[order[done + at] as usize].1;
                *held = match doc {
                    None => Held::Gone,
                    Some(_) if bytes.len() > bytes_max => Held::Unread,
                    Some(doc) => {
                        let start = bytes.len();
                        if bytes.capacity() - start < doc.len() {
                            // The others are taken to be as long, so that the buffer grows once.
                            let rest = (count - done - at) * doc.len();
                            bytes.reserve(rest.min(bytes_max).max(doc.len()));
                        }
                        bytes.extend_from_slice(doc.as_bytes());
                        Held::At(start..bytes.len())
                    }
                };
            };
            self.near.records(cx.reader, collection, part, &mut self.buf, visit)?;
            done += part.len();
            if self.bytes.len() > self.bytes_max {
                break;
            }
        }
        self.end = self.bytes.len();
        self.record_bytes = self.end / done.max(1);
        Ok(())
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
            let (other, held) = &self.entries[self.next];
            self.next += 1;
            if *other != id {
                continue;
            }
            match held {
                Held::Gone => return Ok(Taken::Gone),
                Held::At(range) => return Ok(Taken::At(range.clone())),
                Held::Unread => break,
            }
        }
        self.read_one(collection, id, cx)
    }

    /// Reads a record into `bytes`, after those that are still to be taken.
    fn read_one(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        cx: &Cx<'_>,
    ) -> Result<Taken> {
        if self.is_empty() {
            self.forget();
        }
        let Some(doc) = cx.reader.record(collection, id, &mut self.buf)? else {
            return Ok(Taken::Gone);
        };
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(doc.as_bytes());
        Ok(Taken::At(self.end..self.bytes.len()))
    }

    /// The document of the record taken last.
    pub(crate) fn doc(&self, at: &Range<usize>) -> Doc<'_> {
        Doc::trusted(&self.bytes[at.clone()])
    }

    /// Drops all records, because another snapshot will be read. The next reads are small again.
    pub(crate) fn forget_state(&mut self) {
        self.forget();
        self.near.forget();
        self.step = first_step(self.wanted);
        self.bytes = Vec::new();
    }

    fn forget(&mut self) {
        self.entries.clear();
        self.next = 0;
        self.bytes.clear();
        self.end = 0;
    }
}
