//! Records read ahead: many in one call of the engine, before they are requested.
//!
//! A read of one record costs a walk through the engine's files and two or three misses of the processor's
//! caches. Asked for many records at once the engine makes the walks side by side, and sorted by their ids
//! neighbours share a block.
//!
//! The first record is read alone, then 2, 4, 8, ... at once: who wants one document pays for one, and who
//! wants a first batch of 101 pays for 101. Records that were read and are never asked for have cost at
//! most as much as those that were.
//!
//! Memory: [`BYTES_MAX`] and one record; the branches of a merge share it.

use std::ops::Range;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{Collection, RECORDS_AT_ONCE, RecordBuf, RecordId, RecordKey};

use super::Cx;
use crate::limits::RECORDS_AHEAD_MAX;

/// Bytes of records that a plan keeps at most before they are requested.
const BYTES_MAX: usize = 1 << 20;

/// Records that were read and not yet taken.
pub(crate) struct Ahead {
    entries: Vec<(RecordId, Held)>,
    /// Those before it were taken.
    next: usize,
    /// The records, one behind the other.
    bytes: Vec<u8>,
    /// Where the bytes of `entries` end; behind them one record that there was no room for.
    end: usize,
    /// How many to read next time.
    step: usize,
    /// A record's bytes, about; 0 before any was read.
    record_bytes: usize,
    /// Documents that are still wanted, if it is known.
    wanted: Option<u64>,
    bytes_max: usize,
    /// Places in `entries` by record; kept for its memory.
    order: Vec<u32>,
    sorted: Vec<RecordId>,
    buf: RecordBuf,
}

enum Held {
    /// There was no room for it.
    Unread,
    Gone,
    At(Range<usize>),
}

/// A record that was requested.
pub(crate) enum Taken {
    /// It is not there any more.
    Gone,
    At(Range<usize>),
}

impl Ahead {
    /// `wanted` is how many documents are going to be asked for at most, if that is known; `beside` how
    /// many others read ahead for the same plan: they share the memory.
    pub(crate) fn new(wanted: Option<u64>, beside: usize) -> Ahead {
        Ahead {
            entries: Vec::new(),
            next: 0,
            bytes: Vec::new(),
            end: 0,
            step: 1,
            record_bytes: 0,
            wanted,
            bytes_max: BYTES_MAX / (beside + 1),
            order: Vec::new(),
            sorted: Vec::new(),
            buf: RecordBuf::default(),
        }
    }

    /// Whether all that was read ahead is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.entries.len()
    }

    /// How many records to name to [`Ahead::read`] now; 1 if it does not pay. Grows with every call.
    pub(crate) fn step(&mut self, cx: &Cx<'_>) -> usize {
        let wanted = self.wanted.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let fitting = self.bytes_max / self.record_bytes.max(1);
        let max = cx.env.interrupt().records_ahead_max();
        let step = self.step.min(wanted).min(fitting).min(max).max(1);
        self.step = match self.step {
            // A first batch ends here: 1 + 2 + ... + 32 + 38 = 101.
            32 => 38,
            38 => 64,
            step => (step * 2).min(RECORDS_AHEAD_MAX),
        };
        step
    }

    /// Reads the records; they are going to be taken in this order. What was read before is dropped.
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
            // Each of them may have to come from the disk.
            cx.env.interrupt().check()?;
            let (entries, bytes, order) = (&mut self.entries, &mut self.bytes, &self.order);
            let bytes_max = self.bytes_max;
            cx.reader.records(collection, part, &mut self.buf, &mut |at, doc| {
                let held = &mut entries[order[done + at] as usize].1;
                *held = match doc {
                    None => Held::Gone,
                    Some(_) if bytes.len() > bytes_max => Held::Unread,
                    Some(doc) => {
                        let start = bytes.len();
                        bytes.extend_from_slice(doc.as_bytes());
                        Held::At(start..bytes.len())
                    }
                };
            })?;
            done += part.len();
            if self.bytes.len() > self.bytes_max {
                break;
            }
        }
        self.end = self.bytes.len();
        self.record_bytes = self.end / done.max(1);
        Ok(())
    }

    /// The record `id`, which is the next of those that were read; others before it are passed over.
    /// If it is none of them it is read now.
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

    /// Reads a record into `bytes`, behind those that are still to be taken.
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

    /// The document of a record that was taken last.
    pub(crate) fn doc(&self, at: &Range<usize>) -> Doc<'_> {
        Doc::trusted(&self.bytes[at.clone()])
    }

    /// Drops what was read: another state is going to be read. The next records are few again.
    pub(crate) fn forget_state(&mut self) {
        self.forget();
        self.step = 1;
        self.bytes = Vec::new();
    }

    fn forget(&mut self) {
        self.entries.clear();
        self.next = 0;
        self.bytes.clear();
        self.end = 0;
    }
}
