//! The documents of one partition, read several times from different positions, and spilled to disk if required.
//!
//! ```text
//!   d0 d1 d2 | d3 d4 d5 | d6 d7 d8 d9
//!   run 0      run 1      in memory; the oldest are dropped once no reader needs them
//! ```
//!
//! Each reader only moves forwards, so on disk it is a cursor over a run.

use std::collections::VecDeque;

use nagi_error::{Error, Result};
use nagi_store::{Spill, SpillCursor, Store};

use super::SourceStats;

/// Memory of a document in addition to its bytes.
const DOC_BYTES: usize = 32;

/// Documents by their position in the partition.
#[derive(Default)]
pub(crate) struct Partition {
    held: VecDeque<Box<[u8]>>,
    /// Position of the first one held in memory.
    first: u64,
    held_bytes: usize,
    spill: Option<Spill>,
    /// Position of the first document of each run.
    runs: Vec<u64>,
}

/// A position from which documents are read.
#[derive(Default)]
pub(crate) struct PartitionReader {
    on_disk: Option<OnDisk>,
}

struct OnDisk {
    run: usize,
    /// Position of the document at the cursor.
    at: u64,
    cursor: SpillCursor,
}

impl Partition {
    pub(crate) fn push(&mut self, doc: &[u8]) {
        self.held_bytes += doc.len() + DOC_BYTES;
        self.held.push_back(doc.into());
    }

    /// Number of documents so far.
    pub(crate) fn len(&self) -> u64 {
        self.first + self.held.len() as u64
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.held_bytes
    }

    /// Adds the counters of the spill.
    pub(crate) fn note_spill(&self, stats: &mut SourceStats) {
        self.spill.iter().for_each(|spill| stats.note_spill(spill));
    }

    /// Drops the documents before `at`, which no reader needs any more.
    pub(crate) fn forget(&mut self, at: u64) {
        while self.first < at
            && let Some(doc) = self.held.pop_front()
        {
            self.held_bytes -= doc.len() + DOC_BYTES;
            self.first += 1;
        }
    }

    /// Spills the documents in memory to disk.
    ///
    /// # Errors
    /// Errors of the engine (14031 if the disk is full).
    pub(crate) fn write_out(&mut self, store: &Store) -> Result<()> {
        let spill = self.spill.get_or_insert_with(|| store.spill());
        let mut docs = std::mem::take(&mut self.held).into_iter();
        let count = docs.len() as u64;
        spill.write_run(&mut |_, value| {
            let Some(doc) = docs.next() else { return Ok(false) };
            value.extend_from_slice(&doc);
            Ok(true)
        })?;
        self.runs.push(self.first);
        self.first += count;
        self.held_bytes = 0;
        Ok(())
    }

    /// The document at `at`, which must exist and must not have been dropped.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(crate) fn doc<'p>(&'p self, at: u64, reader: &'p mut PartitionReader) -> Result<&'p [u8]> {
        let missing = || Error::bug("a document of a partition was forgotten too early");
        if at >= self.first {
            reader.on_disk = None;
            return self.held.get((at - self.first) as usize).map(|doc| &**doc).ok_or_else(missing);
        }
        let run = self.runs.partition_point(|first| *first <= at).checked_sub(1);
        let run = run.ok_or_else(missing)?;
        let spill = self.spill.as_ref().ok_or_else(missing)?;
        let open = match reader.on_disk.take() {
            Some(open) if open.run == run && open.at <= at => open,
            _ => {
                let mut cursor = spill.read_run(run as u32)?;
                cursor.advance()?;
                OnDisk { run, at: self.runs[run], cursor }
            }
        };
        let open = reader.on_disk.insert(open);
        while open.at < at {
            open.cursor.advance()?;
            open.at += 1;
        }
        Ok(open.cursor.entry()?.1)
    }
}
