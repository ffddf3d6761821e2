//! Documents that arrive in portions: the input of several pipelines that are fed from one source.
//!
//! ```text
//!   source -> portion (some documents) -> PortionReader -> stages of the first pipeline
//!                                     \-> PortionReader -> stages of the second pipeline
//! ```
//!
//! A portion is small enough to stay in the processor's cache while every pipeline reads it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nagi_bson::Doc;
use nagi_error::Result;

use super::{Cx, Source, document, metadata, serialize};

/// A portion is complete when it has this size.
const PORTION_BYTES: usize = 64 << 10;

/// What a source does with the documents that its leaf has at present; see [`Source::absorb`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absorbed {
    /// `advance` yields what it makes of them. After it has returned false, it yields more when the leaf has more.
    Yields,
    /// They were read and are kept; `advance` may be called after the last portion only.
    Keeps,
    /// It must be able to read all of its input at once.
    Unable,
}

/// Documents with their metadata.
#[derive(Default)]
pub(crate) struct Portion {
    bytes: Vec<u8>,
    /// The end of each document.
    ends: Vec<usize>,
}

impl Portion {
    /// Appends the current document of `source`. Returns true if the portion is complete.
    pub(crate) fn add(&mut self, source: &dyn Source) -> bool {
        serialize(source, &mut self.bytes);
        self.ends.push(self.bytes.len());
        self.bytes.len() >= PORTION_BYTES
    }

    /// Removes the documents. The memory of large ones is released.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * PORTION_BYTES);
        self.ends.clear();
    }

    /// A document with its metadata.
    fn carried(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

/// The place where a [`PortionReader`] finds its next portion.
#[derive(Clone, Default)]
pub(crate) struct PortionSlot(Arc<Mutex<InSlot>>);

#[derive(Default)]
struct InSlot {
    portion: Option<Arc<Portion>>,
    /// That of the reader of later portions, once its own reader was split.
    later: Option<PortionSlot>,
    /// There are no more portions.
    ended: bool,
}

impl PortionSlot {
    fn lock(&self) -> MutexGuard<'_, InSlot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, portion: Option<Arc<Portion>>) {
        self.lock().portion = portion;
    }

    /// No portion follows.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
    }

    fn take(&self) -> Option<Arc<Portion>> {
        self.lock().portion.take()
    }

    /// The slot of later portions, after the reader was split.
    pub(crate) fn take_later(&self) -> Option<PortionSlot> {
        self.lock().later.take()
    }
}

/// The leaf of a pipeline: yields the documents of the portions put into its slot.
pub(crate) struct PortionReader {
    slot: PortionSlot,
    portion: Option<Arc<Portion>>,
    /// The number of documents of the portion that were yielded.
    yielded: usize,
}

impl PortionReader {
    pub(crate) fn new(slot: PortionSlot) -> PortionReader {
        PortionReader { slot, portion: None, yielded: 0 }
    }

    fn current(&self) -> Option<&[u8]> {
        let portion = self.portion.as_ref()?;
        Some(portion.carried(self.yielded.checked_sub(1)?))
    }
}

impl Source for PortionReader {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        if self.portion.is_none() {
            (self.portion, self.yielded) = (self.slot.take(), 0);
        }
        let more = self.portion.as_ref().is_some_and(|portion| self.yielded < portion.ends.len());
        match more {
            true => self.yielded += 1,
            // The buffer is used again for the next portion.
            false => self.portion = None,
        }
        Ok(more)
    }

    fn absorb(&mut self, _: &mut Cx<'_>) -> Result<Absorbed> {
        Ok(Absorbed::Yields)
    }

    /// Another reader for later portions.
    fn split(&mut self, _: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        let mut slot = self.slot.lock();
        if slot.ended {
            return Ok(None);
        }
        let later = PortionSlot::default();
        slot.later = Some(later.clone());
        Ok(Some(Box::new(PortionReader::new(later))))
    }

    fn doc(&self) -> Doc<'_> {
        self.current().map_or(Doc::EMPTY, document)
    }

    fn meta(&self) -> Doc<'_> {
        self.current().map_or(Doc::EMPTY, metadata)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
