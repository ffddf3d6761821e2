//! Picks records at random without reading the others, for a small `$sample`.
//!
//! Record ids are numbers assigned in order. A number between the first and the last is drawn, and its record is
//! taken; if that record was removed, another number is drawn. So each record has the same probability, whatever
//! gaps there are. Gaps cost additional draws: the planner uses this only if at least one number in twenty is in
//! use, and if record ids are numbers.

use std::{collections::HashSet, sync::Arc};

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{Collection, RecordBuf, RecordCursor, RecordKey};

use super::{Cx, Random, Source, SourceStats};

/// Limit of draws for a record before a search in order. With one number in twenty in use, this many draws fail
/// once in a hundred thousand million.
const DRAWS_MAX: u32 = 500;

/// Distinct records, in random order.
pub(crate) struct Pick {
    collection: Arc<Collection>,
    /// Number of records still to be picked.
    left: u64,
    seen: HashSet<i64>,
    random: Random,
    /// The numbers of the first and the last record, once looked up.
    ends: Option<(i64, i64)>,
    current: Option<i64>,
    doc: Vec<u8>,
    buf: RecordBuf,
    stats: SourceStats,
}

impl Pick {
    /// Picks `count` records of the collection, or all if it has fewer.
    pub(crate) fn new(collection: Arc<Collection>, count: u64) -> Pick {
        Pick {
            collection,
            left: count,
            seen: HashSet::new(),
            random: Random::new(),
            ends: None,
            current: None,
            doc: Vec::new(),
            buf: RecordBuf::default(),
            stats: SourceStats::default(),
        }
    }

    fn ends(&mut self, cx: &Cx<'_>) -> Result<Option<(i64, i64)>> {
        if self.ends.is_none() {
            let end = |forward| -> Result<Option<i64>> {
                let mut cursor = cx.reader.scan(&self.collection, forward)?;
                Ok(cursor.advance()?.then(|| cursor.id().number()).flatten())
            };
            self.ends = end(true)?.zip(end(false)?);
        }
        Ok(self.ends)
    }

    /// Takes the record, if it exists.
    fn take(&mut self, number: i64, cx: &Cx<'_>) -> Result<bool> {
        let Some(doc) = cx.reader.record(&self.collection, RecordKey::Id(number), &mut self.buf)?
        else {
            return Ok(false);
        };
        self.doc.clear();
        self.doc.extend_from_slice(doc.as_bytes());
        self.seen.insert(number);
        self.stats.docs_examined += 1;
        cx.examined_doc();
        self.current = Some(number);
        Ok(true)
    }

    /// The first record after `start`, or else the first of all, that was not taken yet.
    fn in_order(&self, start: i64, cx: &mut Cx<'_>) -> Result<Option<i64>> {
        for begin in [Some(start), None] {
            let mut cursor: RecordCursor = cx.reader.scan(&self.collection, true)?;
            if let Some(start) = begin {
                cursor.resume_after(RecordKey::Id(start));
            }
            while cursor.advance()? {
                cx.tick()?;
                if let Some(number) = cursor.id().number().filter(|n| !self.seen.contains(n)) {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }
}

impl Source for Pick {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.current = None;
        if self.left == 0 {
            return Ok(false);
        }
        let Some((first, last)) = self.ends(cx)? else { return Ok(false) };
        self.left -= 1;
        let span = last.abs_diff(first).saturating_add(1);
        for _ in 0..DRAWS_MAX {
            cx.tick()?;
            let drawn = first.saturating_add_unsigned(self.random.below(span));
            if !self.seen.contains(&drawn) && self.take(drawn, cx)? {
                return Ok(true);
            }
        }
        let start = first.saturating_add_unsigned(self.random.below(span));
        match self.in_order(start, cx)? {
            Some(number) => self.take(number, cx),
            None => Ok(false),
        }
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.current.map(RecordKey::Id)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
