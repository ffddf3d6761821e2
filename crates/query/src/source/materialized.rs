//! Documents that a join keeps in memory and yields again for each document that they belong to.

use std::sync::{Arc, Mutex, PoisonError};

use nagi_bson::Doc;
use nagi_error::Result;

use super::{Cx, OperatorMemory, Source, document, metadata, serialize};

/// Serialized documents with their metadata, one after the other.
#[derive(Default)]
pub(crate) struct Materialized {
    bytes: Vec<u8>,
    /// The end of each document.
    ends: Vec<usize>,
    held: Mutex<OperatorMemory>,
}

impl Materialized {
    /// Adds the current document of `source`.
    pub(crate) fn push(&mut self, source: &dyn Source) {
        serialize(source, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Charges that memory. Returns false if there is no capacity.
    pub(crate) fn fits(&mut self, cx: &Cx<'_>) -> bool {
        let bytes = self.bytes();
        self.held.get_mut().unwrap_or_else(PoisonError::into_inner).fits(cx, bytes)
    }

    fn get(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }
}

/// Yields some or all of the documents.
pub(crate) struct MaterializedScan {
    kept: Arc<Materialized>,
    places: Option<Vec<u32>>,
    /// Position of the next document.
    next: usize,
}

impl MaterializedScan {
    /// Yields the documents at `places`, or all if there are none given.
    pub(crate) fn new(kept: &Arc<Materialized>, places: Option<Vec<u32>>) -> MaterializedScan {
        MaterializedScan { kept: Arc::clone(kept), places, next: 0 }
    }

    fn count(&self) -> usize {
        self.places.as_ref().map_or(self.kept.count(), Vec::len)
    }

    fn current(&self) -> &[u8] {
        let at = self.next - 1;
        self.kept.get(self.places.as_ref().map_or(at, |places| places[at] as usize))
    }
}

impl Source for MaterializedScan {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.next >= self.count() {
            return Ok(false);
        }
        self.next += 1;
        cx.pass()?;
        cx.weigh(self.current())?;
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        document(self.current())
    }

    fn meta(&self) -> Doc<'_> {
        metadata(self.current())
    }

    fn is_at_end(&self) -> bool {
        self.next >= self.count()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    fn save(&mut self) {
        self.kept.held.lock().unwrap_or_else(PoisonError::into_inner).park();
    }

    fn restore(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        self.kept.held.lock().unwrap_or_else(PoisonError::into_inner).resume();
        Ok(())
    }
}
