//! The input of a `$facet`, for pipelines that read all of it at once: in memory or on disk.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};
use nagi_store::{Spill, SpillCursor};

use super::branches::Feed;
use crate::source::{
    Cx, Documents, OperatorMemory, Source, SourceStats, document, metadata, serialize,
};

/// The documents with their metadata.
enum Docs {
    Memory(Arc<Vec<Box<[u8]>>>),
    /// The input exceeded the memory limit: one run on disk.
    Disk(Arc<Spill>),
}

/// The input, and its memory charge.
pub(super) struct Kept {
    docs: Docs,
    /// The charge for documents in memory.
    _held: OperatorMemory,
}

/// How much is kept in memory, and if more may be written to disk.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) memory_bytes_max: usize,
    pub(super) allow_disk_use: bool,
}

impl Kept {
    /// Reads all documents of `input`, which `feed` gets as well.
    pub(super) fn read(
        input: &mut dyn Source,
        feed: &mut Feed,
        limits: Limits,
        cx: &mut Cx<'_>,
    ) -> Result<Kept> {
        let (mut docs, mut bytes, mut held) = (Vec::new(), 0, OperatorMemory::default());
        while feed.advance(input, cx)? {
            let mut doc = Vec::new();
            serialize(input, &mut doc);
            bytes += doc.len();
            docs.push(doc.into());
            if bytes > limits.memory_bytes_max || !held.fits(cx, bytes) {
                let spill = to_disk(docs, (input, feed), limits, cx)?;
                return Ok(Kept {
                    docs: Docs::Disk(Arc::new(spill)),
                    _held: OperatorMemory::default(),
                });
            }
        }
        Ok(Kept { docs: Docs::Memory(Arc::new(docs)), _held: held })
    }

    /// A source of all documents.
    pub(super) fn open(&self) -> Result<Box<dyn Source>> {
        Ok(match &self.docs {
            Docs::Memory(docs) => Box::new(Documents::new(docs.clone())),
            Docs::Disk(spill) => {
                let cursor = spill.read_run(0)?;
                Box::new(Spilled { cursor, _spill: spill.clone(), doc: Vec::new() })
            }
        })
    }

    pub(super) fn stats(&self) -> SourceStats {
        let mut stats = SourceStats::default();
        if let Docs::Disk(spill) = &self.docs {
            stats.note_spill(spill);
        }
        stats
    }
}

/// Writes the documents read so far and the rest of the input into one run.
fn to_disk(
    docs: Vec<Box<[u8]>>,
    (input, feed): (&mut dyn Source, &mut Feed),
    limits: Limits,
    cx: &mut Cx<'_>,
) -> Result<Spill> {
    if !limits.allow_disk_use {
        bail!(
            Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
            "Exceeded memory limit for $facet, but disk use is not allowed: its input is larger \
             than {} bytes",
            limits.memory_bytes_max
        );
    }
    let mut spill = cx.store.spill();
    let mut read = docs.into_iter();
    spill.write_run(&mut |_, value| {
        match read.next() {
            Some(doc) => value.extend_from_slice(&doc),
            None if feed.advance(input, cx)? => serialize(input, value),
            None => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(spill)
}

/// Yields the documents of a run on disk.
struct Spilled {
    cursor: SpillCursor,
    /// Keeps the run from being dropped.
    _spill: Arc<Spill>,
    doc: Vec<u8>,
}

impl Source for Spilled {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        if !self.cursor.advance()? {
            return Ok(false);
        }
        self.doc.clear();
        self.doc.extend_from_slice(self.cursor.entry()?.1);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        document(&self.doc)
    }

    fn meta(&self) -> Doc<'_> {
        metadata(&self.doc)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
