//! Leaves that read records: the collection scan and the lookup by `_id`.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Doc, ValueBuf};
use nagi_error::Result;
use nagi_lang::filter::Filter;
use nagi_store::{Collection, RecordCursor, RecordId};

use super::{Cx, Source, SourceStats};

/// Yields nothing.
pub(crate) struct Eof;

impl Source for Eof {
    fn advance(&mut self, _: &mut Cx<'_>) -> Result<bool> {
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn is_at_end(&self) -> bool {
        true
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}

/// Walks all records in the order of insertion, or against it. Documents are lent by the engine.
pub(crate) struct CollScan {
    collection: Arc<Collection>,
    forward: bool,
    filter: Option<Arc<Filter>>,
    cursor: Option<RecordCursor>,
    /// The record to go on behind, after `restore`.
    last: Option<RecordId>,
    done: bool,
    arena: Bump,
    stats: SourceStats,
}

impl CollScan {
    pub(crate) fn new(
        collection: Arc<Collection>,
        forward: bool,
        filter: Option<Arc<Filter>>,
    ) -> CollScan {
        CollScan {
            collection,
            forward,
            filter,
            cursor: None,
            last: None,
            done: false,
            arena: Bump::new(),
            stats: SourceStats::default(),
        }
    }

    fn cursor(&mut self, cx: &Cx<'_>) -> Result<RecordCursor> {
        if let Some(cursor) = self.cursor.take() {
            return Ok(cursor);
        }
        let mut cursor = cx.reader.scan(&self.collection, self.forward)?;
        if let Some(last) = self.last {
            cursor.resume_after(last);
        }
        Ok(cursor)
    }
}

impl Source for CollScan {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let mut cursor = self.cursor(cx)?;
        while cursor.advance()? {
            cx.tick()?;
            self.stats.docs_examined += 1;
            let matched = match &self.filter {
                None => true,
                Some(filter) => {
                    let matched = filter.matches(cursor.doc(), &cx.matching(&self.arena))?;
                    self.arena.reset();
                    matched
                }
            };
            if matched {
                self.cursor = Some(cursor);
                return Ok(true);
            }
        }
        self.done = true;
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.cursor.as_ref().map_or(Doc::EMPTY, RecordCursor::doc)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.cursor.as_ref().map(RecordCursor::id)
    }

    fn is_at_end(&self) -> bool {
        self.done
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    fn save(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            self.last = Some(cursor.id());
        }
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// The one record with this `_id`. Two gets.
pub(crate) struct IdLookup {
    collection: Arc<Collection>,
    id: ValueBuf,
    found: Option<RecordId>,
    done: bool,
    doc: Vec<u8>,
    buf: Vec<u8>,
    stats: SourceStats,
}

impl IdLookup {
    pub(crate) fn new(collection: Arc<Collection>, id: ValueBuf) -> IdLookup {
        IdLookup {
            collection,
            id,
            found: None,
            done: false,
            doc: Vec::new(),
            buf: Vec::new(),
            stats: SourceStats::default(),
        }
    }
}

impl Source for IdLookup {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        cx.tick()?;
        let Some(id) = cx.reader.find_id(&self.collection, self.id.value())? else {
            return Ok(false);
        };
        self.stats.keys_examined = 1;
        let Some(doc) = cx.reader.record(&self.collection, id, &mut self.buf)? else {
            return Ok(false);
        };
        self.stats.docs_examined = 1;
        self.doc.clear();
        self.doc.extend_from_slice(doc.as_bytes());
        self.found = Some(id);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.found
    }

    fn is_at_end(&self) -> bool {
        self.done
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
