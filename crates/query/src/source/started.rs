//! A source that has already run in a trial: yields its recorded results first, then the rest.

use std::collections::VecDeque;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey};

use super::{Cx, Source, SourceStats, document, metadata, serialize};

/// A result that a source returned.
pub(crate) struct Returned {
    /// The document with its metadata.
    bytes: Vec<u8>,
    id: Option<RecordId>,
}

impl Returned {
    /// Records the current document of `source`.
    pub(crate) fn of(source: &dyn Source) -> Returned {
        let mut bytes = Vec::new();
        serialize(source, &mut bytes);
        Returned { bytes, id: source.record_id().map(RecordKey::to_id) }
    }
}

pub(crate) struct Started {
    returned: VecDeque<Returned>,
    /// The document that was returned last, if it was a recorded one.
    current: Option<Returned>,
    source: Box<dyn Source>,
}

impl Started {
    pub(crate) fn new(returned: VecDeque<Returned>, source: Box<dyn Source>) -> Started {
        Started { returned, current: None, source }
    }
}

impl Source for Started {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.current = self.returned.pop_front();
        if self.current.is_some() { Ok(true) } else { self.source.advance(cx) }
    }

    fn doc(&self) -> Doc<'_> {
        match &self.current {
            Some(returned) => document(&returned.bytes),
            None => self.source.doc(),
        }
    }

    fn meta(&self) -> Doc<'_> {
        match &self.current {
            Some(returned) => metadata(&returned.bytes),
            None => self.source.meta(),
        }
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        match &self.current {
            Some(returned) => returned.id.as_ref().map(RecordId::key),
            None => self.source.record_id(),
        }
    }

    fn is_at_end(&self) -> bool {
        self.returned.is_empty() && self.source.is_at_end()
    }

    // For explain and the counters this is the source itself.
    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        self.source.inputs()
    }

    fn save(&mut self) {
        self.source.save();
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.source.restore(cx)
    }

    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        self.source.doubt_keys(noted, checked)
    }

    fn split(&mut self, cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        self.source.split(cx)
    }

    fn splits_late(&self) -> bool {
        self.source.splits_late()
    }

    fn position(&mut self) -> Option<RecordId> {
        self.source.position()
    }

    fn stats(&self) -> SourceStats {
        self.source.stats()
    }
}
