//! Leaves that read records: the collection scan and the lookup by `_id`.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::filter::{CompareOp, Filter, Pred};
use nagi_store::{Collection, RecordBuf, RecordCursor, RecordId, RecordKey};

use super::parallel_batch::RECORDS_MIN;
use super::{Cx, Fork, Placed, Source, SourceStats, renew};

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

/// Start of a collection scan, and its behaviour at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScanOptions {
    /// At the end it waits for later records. Only for capped collections, forward.
    pub(crate) tailable: bool,
    /// Keeps its position also at the end, for a resume token.
    pub(crate) tracked: bool,
    /// Begins after this record (211 if it does not exist).
    pub(crate) resume_after: Option<RecordId>,
}

/// Fewer records are read before a worker has begun.
const SPLIT_RECORDS_MIN: i64 = 20_000;

/// Scans all records in the order of their keys, or in reverse. The engine lends the documents.
pub(crate) struct CollScan {
    collection: Arc<Collection>,
    forward: bool,
    filter: Option<Arc<Filter>>,
    options: ScanOptions,
    /// The part of the records it reads.
    part: Part,
    /// Set during a fork.
    forked: Option<Forked>,
    cursor: Option<RecordCursor>,
    /// True if the cursor is on a record that was not examined yet.
    pending: bool,
    /// The record after which to continue, after `restore` or at the end.
    last: Option<RecordId>,
    done: bool,
    arena: Bump,
    stats: SourceStats,
}

/// The records after `behind` and up to `up_to`, if these are given.
#[derive(Debug, Clone, Default)]
struct Part {
    behind: Option<RecordId>,
    up_to: Option<RecordId>,
}

impl Part {
    /// The part of the change log, whose record keys are the stamps in `ts`, that can match a filter.
    fn of_stamps(filter: &Filter, options: &ScanOptions) -> Part {
        let mut part = Part::default();
        part.narrow(filter);
        if options.tailable {
            part.up_to = None;
        }
        part
    }

    /// Where a scan of it begins: beyond this record in the scan's direction.
    fn beyond(&self, forward: bool) -> Option<RecordId> {
        match (forward, &self.up_to) {
            (true, _) => self.behind.clone(),
            (false, Some(RecordId::Id(last))) => last.checked_add(1).map(RecordId::Id),
            // Only numbers are counted down from.
            (false, _) => None,
        }
    }

    /// True if a scan has left it at this record.
    fn ends_before(&self, here: RecordKey<'_>, forward: bool) -> bool {
        match forward {
            true => self.up_to.as_ref().is_some_and(|up_to| here > up_to.key()),
            false => self.behind.as_ref().is_some_and(|behind| here <= behind.key()),
        }
    }

    fn narrow(&mut self, filter: &Filter) {
        let (path, op, value) = match filter {
            Filter::And(all) => return all.iter().for_each(|one| self.narrow(one)),
            Filter::Field { path, pred: Pred::Compare { op, value, .. } } => (path, op, value),
            _ => return,
        };
        let Value::Timestamp(stamp) = value.value() else { return };
        let Ok(stamp) = i64::try_from(stamp) else { return };
        if path.as_str() != "ts" {
            return;
        }
        if matches!(op, CompareOp::Eq | CompareOp::Gte | CompareOp::Gt) {
            // No entry has the stamp 0.
            let behind = RecordId::Id((stamp - i64::from(*op != CompareOp::Gt)).max(0));
            self.behind = self.behind.take().max(Some(behind));
        }
        if matches!(op, CompareOp::Eq | CompareOp::Lte | CompareOp::Lt) {
            let up_to = RecordId::Id(stamp);
            self.up_to = Some(self.up_to.take().map_or(up_to.clone(), |other| other.min(up_to)));
        }
    }
}

/// What a fork has changed of a scan.
struct Forked {
    /// The end of its part before the fork.
    up_to: Option<RecordId>,
}

impl CollScan {
    pub(crate) fn new(
        collection: Arc<Collection>,
        forward: bool,
        filter: Option<Arc<Filter>>,
        options: ScanOptions,
    ) -> CollScan {
        let part = match filter.as_deref().filter(|_| collection.is_change_log()) {
            Some(filter) => Part::of_stamps(filter, &options),
            None => Part::default(),
        };
        CollScan {
            collection,
            forward,
            filter,
            options,
            part,
            forked: None,
            cursor: None,
            pending: false,
            last: None,
            done: false,
            arena: Bump::new(),
            stats: SourceStats::default(),
        }
    }

    /// Opens the cursor where the scan begins or continues.
    fn open_cursor(&self, cx: &Cx<'_>) -> Result<RecordCursor> {
        let mut cursor = cx.reader.scan(&self.collection, self.forward)?;
        if let Some(last) = self.last.as_ref().or(self.options.resume_after.as_ref()) {
            self.check_place(last.key(), cx)?;
            cursor.resume_after(last.key());
        } else if let Some(beyond) = self.part.beyond(self.forward) {
            cursor.resume_after(beyond.key());
        }
        Ok(cursor)
    }

    /// Checks that the scan may continue after `last`. In a capped collection the records after it may be gone as
    /// well (136), and a client's token may be older than a deletion (211).
    fn check_place(&self, last: RecordKey<'_>, cx: &Cx<'_>) -> Result<()> {
        let resumes = self.last.is_none();
        if !resumes && !self.collection.options.capped {
            return Ok(());
        }
        if cx.reader.record(&self.collection, last, &mut RecordBuf::default())?.is_some() {
            return Ok(());
        }
        if resumes {
            bail!(
                Code::KEY_NOT_FOUND,
                "Failed to resume collection scan: the recordId from which we are attempting to \
                 resume no longer exists in the collection. recordId: RecordId({last})"
            );
        }
        bail!(
            Code::CAPPED_POSITION_LOST,
            "CollectionScan died due to position in capped collection being deleted. Last seen \
             record id: RecordId({last})"
        );
    }

    /// A scan of this part that has not begun.
    fn of_part(&self, part: Part) -> CollScan {
        let filter = self.filter.clone();
        let scan =
            CollScan::new(self.collection.clone(), self.forward, filter, self.options.clone());
        CollScan { part, ..scan }
    }

    /// The middle of the remaining records, by number; none if their ids are not numbers.
    fn middle(&self, cx: &Cx<'_>) -> Result<Option<RecordId>> {
        let end = |forward| -> Result<Option<i64>> {
            let mut cursor = cx.reader.scan(&self.collection, forward)?;
            Ok(cursor.advance()?.then(|| cursor.id().number()).flatten())
        };
        let (Some(first), Some(last)) = (end(true)?, end(false)?) else { return Ok(None) };
        let number = |id: &Option<RecordId>| id.as_ref().and_then(|id| id.key().number());
        let first = number(&self.part.behind).map_or(first, |behind| behind.max(first));
        let last = number(&self.part.up_to).map_or(last, |up_to| up_to.min(last));
        let count = last.saturating_sub(first);
        Ok((count >= SPLIT_RECORDS_MIN).then(|| RecordId::Id(first + count / 2)))
    }

    /// The number of the record at or after which it continues, and that of its last one.
    fn remaining(&self, cx: &Cx<'_>) -> Result<Option<(i64, i64)>> {
        let here = match &self.cursor {
            Some(cursor) => cursor.id().number(),
            None => self.last.as_ref().and_then(|last| last.key().number()),
        };
        let mut cursor = cx.reader.scan(&self.collection, false)?;
        let last = if cursor.advance()? { cursor.id().number() } else { None };
        let up_to = self.part.up_to.as_ref().and_then(|up_to| up_to.key().number());
        let last = last.map(|last| up_to.map_or(last, |up_to| up_to.min(last)));
        Ok(here.zip(last))
    }

    /// At the end, a tailable scan that has seen a record, or begins behind one, waits after it.
    fn reach_end(&mut self, seen: Option<RecordId>) {
        let before = || self.last.take().or_else(|| self.options.resume_after.clone());
        self.last = seen.or_else(before);
        let waits = self.last.is_some() || self.part.behind.is_some();
        self.done = !self.options.tailable || !waits;
    }
}

impl Source for CollScan {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let tracked = self.options.tracked || self.options.tailable;
        let mut seen = self.cursor.as_ref().filter(|_| tracked).map(|cursor| cursor.id().to_id());
        if self.cursor.is_none() {
            self.cursor = Some(self.open_cursor(cx)?);
        }
        let Some(cursor) = &mut self.cursor else { return Ok(false) };
        while std::mem::take(&mut self.pending) || cursor.advance()? {
            if self.part.ends_before(cursor.id(), self.forward) {
                break;
            }
            let doc = cursor.doc();
            if let Err(error) = cx.tick().and_then(|()| cx.weigh(doc.as_bytes())) {
                self.pending = true;
                return Err(error);
            }
            self.stats.docs_examined += 1;
            cx.examined_doc();
            let matched = match &self.filter {
                None => true,
                Some(filter) => {
                    let matched = filter.matches(doc, &cx.matching(&self.arena))?;
                    renew(&mut self.arena);
                    matched
                }
            };
            if matched {
                return Ok(true);
            }
            if tracked {
                seen = Some(cursor.id().to_id());
            }
        }
        self.cursor = None;
        self.reach_end(seen);
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.cursor.as_ref().map_or(Doc::EMPTY, RecordCursor::doc)
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.cursor.as_ref().map(RecordCursor::id)
    }

    fn is_at_end(&self) -> bool {
        self.done
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    fn position(&mut self) -> Option<RecordId> {
        let here = self.cursor.as_ref().map(|cursor| cursor.id().to_id());
        here.or_else(|| self.last.clone())
    }

    fn split(&mut self, cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        let begun = self.cursor.is_some() || self.last.is_some() || self.done;
        let plain = self.forward && self.options == ScanOptions::default();
        let small = self.collection.count() < SPLIT_RECORDS_MIN;
        if begun || !plain || small || self.collection.options.capped {
            return Ok(None);
        }
        let Some(middle) = self.middle(cx)? else { return Ok(None) };
        let (behind, up_to) = (Some(middle.clone()), self.part.up_to.take());
        let later = self.of_part(Part { behind, up_to });
        self.part.up_to = Some(middle);
        Ok(Some(Box::new(later)))
    }

    fn forks(&self) -> bool {
        let plain = self.forward && self.options == ScanOptions::default();
        plain && !self.done && !self.collection.options.capped
    }

    fn computes(&self) -> bool {
        self.filter.is_some()
    }

    fn fork(&mut self, records: i64, cx: &Cx<'_>) -> Result<Option<Fork>> {
        if !self.forks() {
            return Ok(None);
        }
        let Some((here, last)) = self.remaining(cx)? else { return Ok(None) };
        let records = records.min(last.saturating_sub(here) / 2);
        if records < RECORDS_MIN {
            return Ok(None);
        }
        let middle = RecordId::Id(here + records);
        let up_to = RecordId::Id(here + 2 * records);
        let later = Part { behind: Some(middle.clone()), up_to: Some(up_to.clone()) };
        let later = Box::new(self.of_part(later));
        self.forked = Some(Forked { up_to: self.part.up_to.replace(middle) });
        Ok(Some(Fork { later, up_to }))
    }

    fn rejoin(&mut self, behind: Option<RecordId>, examined: u64) {
        self.stats.docs_examined += examined;
        let Some(Forked { up_to }) = self.forked.take() else { return };
        let own_end = std::mem::replace(&mut self.part.up_to, up_to);
        if behind.is_some() || self.done {
            (self.cursor, self.pending, self.done) = (None, false, false);
            self.last = behind.or(own_end);
        }
    }

    fn place(&self) -> Option<Placed> {
        let record = self.cursor.as_ref()?.id().to_id();
        Some(Placed { record, examined: self.stats.docs_examined })
    }

    fn is_steady(&self) -> bool {
        // The place of a capped scan is lost when its document is deleted.
        !self.collection.options.capped
    }

    fn afresh(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.of_part(self.part.clone())))
    }

    fn save(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            self.last = Some(cursor.id().to_id());
        }
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// The record with this `_id`. Costs two gets, or one in a clustered collection.
pub(crate) struct IdLookup {
    collection: Arc<Collection>,
    id: ValueBuf,
    found: Option<RecordId>,
    done: bool,
    doc: Vec<u8>,
    buf: RecordBuf,
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
            buf: RecordBuf::default(),
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
        let found = cx.reader.record_by_id(&self.collection, self.id.value(), &mut self.buf)?;
        let Some((id, doc)) = found else { return Ok(false) };
        // In explain, a lookup in a clustered collection examines no keys, because records are stored under their
        // ids.
        self.stats.keys_examined = u64::from(self.collection.options.clustered.is_none());
        self.stats.docs_examined = 1;
        cx.examined_doc();
        self.doc.clear();
        self.doc.extend_from_slice(doc.as_bytes());
        self.found = Some(id);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.found.as_ref().map(RecordId::key)
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
