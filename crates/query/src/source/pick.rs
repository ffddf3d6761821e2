//! Records picked at random without reading the others: what a small `$sample` begins with.
//!
//! Record ids are numbers given in order, so a number between the first and the last is drawn, and
//! what is there is taken; nothing is there for a record that was removed, then another is drawn. Each
//! record is as likely as any other, whatever gaps there are. Gaps cost draws: the planner picks only
//! where at least one number in twenty is taken, and records have numbers.

use std::{collections::HashSet, sync::Arc};

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{Collection, RecordBuf, RecordCursor, RecordKey};

use super::{Cx, Random, Source, SourceStats};

/// Draws for a record before it is looked for in order: with one number in twenty taken, so many
/// fail once in a hundred thousand million.
const DRAWS_MAX: u32 = 500;

/// Different records, in any order.
pub(crate) struct Pick {
    collection: Arc<Collection>,
    /// Still to come.
    left: u64,
    seen: HashSet<i64>,
    random: Random,
    /// The first and the last record's number, once looked up.
    ends: Option<(i64, i64)>,
    current: Option<i64>,
    doc: Vec<u8>,
    buf: RecordBuf,
    stats: SourceStats,
}

impl Pick {
    /// So many records of the collection, or all it has if those are fewer.
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

    /// Takes the record, if it is there.
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

    /// The first record behind `start`, or else the first of all, that was not taken yet.
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
