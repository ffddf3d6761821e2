//! The index scan: visits the keys within a plan's bounds and skips the keys in between.
//!
//! Bounds are a set of intervals for each field of the key. Encoded in the index's order, each field has a list of
//! byte ranges. A key is inside if each of its fields is inside one of the field's ranges. If a field is not, the
//! next key that could be inside is known: the same prefix with the start of the next range, or, without a next
//! range, the successor of the prefix. The cursor seeks there.
//!
//! ```text
//!   bounds  a: [1, 1] or [5, 5]   b: [10, 20]
//!   key     (1, 4)    b is below its range    seek (1, 10)
//!           (1, 15)   inside                  yielded
//!           (1, 30)   b is above its range    seek behind prefix (1)
//!           (3, 2)    a is between ranges     seek (5, 10)
//! ```
//!
//! Keys within the bounds may also be tested by a filter (`key_test`) before the entry is passed on.
//!
//! The common form of bounds (leading fields fixed, then one range, then nothing) is one range of keys. Then the
//! cursor is opened on that range, and keys are not examined at all.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, err};
use nagi_store::{Index, IndexCursor, KeyPart, RecordId, RecordKey, keystring};

use super::{
    Cx, Seen, Source, SourceStats,
    key_test::KeyTest,
    queue::{Passed, Queue},
};
use crate::access::{IndexAccess, Interval, Intervals};

/// How often a skip scan that seeks tries a step instead. A step costs a fraction of a seek and is as good if each
/// value has one entry.
const SEEKS_PER_STEP: u32 = 16;

/// Scans index entries. `doc` is empty unless the scan lends records; see `record_id` and `key`.
///
/// A reader of the records requests some entries ahead (`Source::ahead`). They wait in a queue with the counters of
/// the work that found them, which are added when an entry's turn comes. So explain, the budget of a trial and
/// `save` see the scan at its reader's position.
pub(crate) struct IndexScan {
    access: Arc<IndexAccess>,
    fields: Box<[Field]>,
    /// Keys outside `[start, end)` need not be examined.
    start: Vec<u8>,
    end: Vec<u8>,
    /// True if every key in `[start, end)` is inside the bounds.
    whole: bool,
    cursor: Option<IndexCursor>,
    /// The entry after which to continue, after `save`.
    last: Option<(Vec<u8>, RecordId)>,
    /// True if each record is passed on only once.
    dedup: bool,
    seen: Seen,
    seek: Vec<u8>,
    /// The filter on keys, in addition to the bounds.
    test: Option<KeyTest>,
    /// For a skip scan: the last value.
    value: Vec<u8>,
    /// Seeks to the next value since the last attempt of a step; none while each step finds another value.
    seeks_tried: Option<u32>,
    queue: Queue,
    /// True if `doc` is the record: for an index whose entries are the records, if no entries were requested ahead.
    lends: bool,
    done: bool,
    stats: SourceStats,
}

/// The ranges of a field, in the byte order of the index.
struct Field {
    descending: bool,
    ranges: Vec<Range>,
}

struct Range {
    start: Vec<u8>,
    start_included: bool,
    end: Vec<u8>,
    end_included: bool,
}

/// The result of a search.
#[derive(PartialEq, Eq)]
enum Found {
    /// The cursor is on an entry inside the bounds.
    Entry,
    /// The search has not found an entry yet.
    Nothing,
    /// No further entry is inside.
    End,
}

/// The position of a key relative to the bounds.
enum Position {
    Inside,
    /// The next key that may be inside is at or after `seek`.
    Seek,
    /// No further key can be inside.
    Beyond,
}

impl Range {
    fn new(interval: &Interval, part: &KeyPart, all: bool) -> Range {
        let descending = part.descending;
        let encode = |value: &nagi_bson::ValueBuf| {
            let mut out = Vec::new();
            let value = value.value();
            // A hashed field has single values as bounds, or none.
            let value = match part.is_hashed() && !all {
                true => Value::Int64(nagi_store::hash_value(value)),
                false => value,
            };
            keystring::append(value, descending, &mut out);
            out
        };
        let low = (encode(&interval.low), interval.low_included);
        let high = (encode(&interval.high), interval.high_included);
        let (start, end) = if descending { (high, low) } else { (low, high) };
        Range { start: start.0, start_included: start.1, end: end.0, end_included: end.1 }
    }

    fn is_point(&self) -> bool {
        self.start == self.end
    }
}

fn field(set: &Intervals, part: &KeyPart) -> Field {
    let all = set.is_all();
    let mut ranges: Vec<Range> =
        set.0.iter().map(|interval| Range::new(interval, part, all)).collect();
    if part.is_hashed() {
        ranges.sort_by(|a, b| a.start.cmp(&b.start));
        ranges.dedup_by(|a, b| a.start == b.start);
    } else if part.descending {
        ranges.reverse();
    }
    Field { descending: part.descending, ranges }
}

impl IndexScan {
    pub(crate) fn new(access: &Arc<IndexAccess>) -> IndexScan {
        let key = &access.index.spec.key;
        let fields: Box<[Field]> =
            access.bounds.iter().zip(key.iter()).map(|(set, part)| field(set, part)).collect();
        let mut scan = IndexScan {
            access: access.clone(),
            dedup: access.dedup,
            start: Vec::new(),
            end: Vec::new(),
            whole: false,
            cursor: None,
            last: None,
            seen: Seen::default(),
            lends: false,
            seek: Vec::new(),
            test: KeyTest::of(access),
            value: Vec::new(),
            seeks_tried: Some(0),
            queue: Queue::default(),
            done: fields.iter().any(|field| field.ranges.is_empty()),
            fields,
            stats: SourceStats::default(),
        };
        scan.set_range();
        scan
    }

    /// Computes `[start, end)`, and if all of it is inside.
    fn set_range(&mut self) {
        if let Some((min, max)) = &self.access.range {
            self.start.clone_from(min);
            self.end.clone_from(max);
            self.whole = true;
            return;
        }
        let mut prefix = Vec::new();
        let mut at = 0;
        while let Some(field) = self.fields.get(at)
            && let [range] = field.ranges.as_slice()
            && range.is_point()
        {
            prefix.extend_from_slice(&range.start);
            at += 1;
        }
        self.start = prefix.clone();
        self.end = prefix;
        if let Some(field) = self.fields.get(at)
            && let (Some(first), Some(last)) = (field.ranges.first(), field.ranges.last())
        {
            self.start.extend_from_slice(&first.start);
            if !first.start_included {
                self.start.push(keystring::AFTER);
            }
            self.end.extend_from_slice(&last.end);
            if last.end_included {
                self.end.push(keystring::AFTER);
            }
        } else {
            self.end.push(keystring::AFTER);
        }
        let simple = self.fields.get(at).is_none_or(|field| field.ranges.len() == 1);
        self.whole = simple && self.access.bounds.iter().skip(at + 1).all(Intervals::is_all);
    }

    /// A scan of the entries in `[start, end)` that has not begun.
    fn of_part(&self, start: Vec<u8>, end: Vec<u8>) -> IndexScan {
        let scan = IndexScan::new(&self.access).lending(self.lends);
        IndexScan { start, end, ..scan }
    }

    /// Sets if the scan lends the records that are the index's entries.
    pub(crate) fn lending(mut self, lends: bool) -> IndexScan {
        self.lends = lends;
        self
    }

    fn cursor(&mut self, cx: &Cx<'_>) -> Result<IndexCursor> {
        if let Some(cursor) = self.cursor.take() {
            return Ok(cursor);
        }
        self.queue.passed.seeks += 1;
        let (index, forward) = (&self.access.index, self.access.forward);
        let mut cursor = match cx.reader.index_cursor_at(index, forward, &self.values())? {
            Some(cursor) => cursor,
            None => cx.reader.index_cursor(index, forward, &self.start, &self.end)?,
        };
        if self.lends {
            cursor.lend_docs();
        }
        if let Some((key, id)) = &self.last {
            cursor.resume_after(key, id.key());
        }
        Ok(cursor)
    }

    /// The values within `[start, end)` that are left, if the bounds are several single values of one field.
    fn values(&self) -> Vec<&[u8]> {
        let [field] = &*self.fields else { return Vec::new() };
        let are_values = field.ranges.iter().all(Range::is_point);
        if field.ranges.len() < 2 || !are_values || self.access.range.is_some() {
            return Vec::new();
        }
        let last = self.last.as_ref().map(|(key, _)| key.as_slice());
        let is_left = |value: &&[u8]| {
            let behind = match self.access.forward {
                true => last.is_none_or(|last| last <= *value),
                false => last.is_none_or(|last| last >= *value),
            };
            behind && *value >= &*self.start && *value < &*self.end
        };
        field.ranges.iter().map(|range| &*range.start).filter(is_left).collect()
    }

    /// Stores the current value of the leading `fields`, and moves past its other entries or prepares to step over
    /// them.
    fn pass_value(&mut self, fields: usize, cursor: &mut IndexCursor) -> Result<()> {
        let last = self.last.take();
        let key = last.as_ref().map_or_else(|| cursor.key(), |(key, _)| key);
        let (mut begin, mut end, mut descending) = (0, 0, false);
        for field in self.fields.iter().take(fields) {
            (begin, descending) = (end, field.descending);
            end += keystring::field_len(&key[begin..], descending)?;
        }
        self.value.clear();
        // Null and missing share one key, so each of these entries is examined.
        let mut null = Vec::new();
        keystring::append(Value::Null, descending, &mut null);
        if key[begin..end] == *null {
            return Ok(());
        }
        self.value.extend_from_slice(&key[..end]);
        match &mut self.seeks_tried {
            None => {}
            Some(seeks) if *seeks == SEEKS_PER_STEP => self.seeks_tried = None,
            Some(seeks) => {
                *seeks += 1;
                self.seek_behind_value(cursor);
            }
        }
        Ok(())
    }

    /// Seeks past the entries of the last value.
    fn seek_behind_value(&mut self, cursor: &mut IndexCursor) {
        self.seek.clone_from(&self.value);
        self.seek.push(keystring::AFTER);
        self.queue.passed.seeks += 1;
        cursor.seek(&self.seek);
    }

    /// Moves to the next entry inside the bounds, over at most `max` entries. `look` is called for each with the
    /// work that has not been counted yet.
    fn find(
        &mut self,
        cursor: &mut IndexCursor,
        max: usize,
        look: &mut dyn FnMut(&mut Passed, &mut SourceStats) -> Result<()>,
    ) -> Result<Found> {
        for _ in 0..max {
            if !cursor.advance()? {
                return Ok(Found::End);
            }
            self.queue.passed.keys += 1;
            look(&mut self.queue.passed, &mut self.stats)?;
            if !self.value.is_empty() && cursor.key().starts_with(&self.value) {
                self.seeks_tried = Some(0);
                self.seek_behind_value(cursor);
                continue;
            }
            if !self.whole {
                match self.position(cursor.key())? {
                    Position::Inside => {}
                    Position::Seek => {
                        self.queue.passed.seeks += 1;
                        cursor.seek(&self.seek);
                        continue;
                    }
                    Position::Beyond => return Ok(Found::End),
                }
            }
            if let Some(test) = &mut self.test
                && !test.passes(&self.access, (cursor.key(), cursor.type_bits()))?
            {
                continue;
            }
            if self.dedup && !self.seen.insert(cursor.record_id()) {
                self.queue.passed.dups += 1;
                continue;
            }
            return Ok(Found::Entry);
        }
        Ok(Found::Nothing)
    }

    /// Compares a key with the bounds; sets `seek` if the scan can skip.
    fn position(&mut self, key: &[u8]) -> Result<Position> {
        let mut at = 0;
        for field in &self.fields {
            let len = keystring::field_len(&key[at..], field.descending)?;
            let (prefix, value) = (&key[..at], &key[at..at + len]);
            let found = if self.access.forward {
                forward(field, prefix, value, &mut self.seek)
            } else {
                backward(field, prefix, value, &mut self.seek)
            };
            match found {
                Position::Inside => at += len,
                Position::Beyond if at > 0 => {
                    self.seek.clear();
                    self.seek.extend_from_slice(prefix);
                    if self.access.forward {
                        self.seek.push(keystring::AFTER);
                    }
                    return Ok(Position::Seek);
                }
                outside => return Ok(outside),
            }
        }
        Ok(Position::Inside)
    }
}

/// The error of a plan that cannot continue, because its keys no longer contain the whole values.
pub(crate) fn became_multikey(index: &Index) -> Error {
    let name = index.name();
    err!(Code::QUERY_PLAN_KILLED, "query plan killed :: index '{name}' became multikey")
}

/// Adds the work to the counters.
fn count(stats: &mut SourceStats, passed: Passed, cx: &Cx<'_>) -> Result<()> {
    stats.note(passed);
    cx.examined_keys(passed.keys);
    for _ in 0..passed.keys {
        cx.tick()?;
        stats.keys_examined += 1;
    }
    Ok(())
}

/// Checks if `value` is in a range; if not, `seek` becomes the first key that could be.
fn forward(field: &Field, prefix: &[u8], value: &[u8], seek: &mut Vec<u8>) -> Position {
    let at = field.ranges.partition_point(|range| {
        &*range.end < value || (&*range.end == value && !range.end_included)
    });
    let Some(range) = field.ranges.get(at) else { return Position::Beyond };
    if &*range.start < value || (&*range.start == value && range.start_included) {
        return Position::Inside;
    }
    seek.clear();
    seek.extend_from_slice(prefix);
    seek.extend_from_slice(&range.start);
    if !range.start_included {
        seek.push(keystring::AFTER);
    }
    Position::Seek
}

/// Like [`forward`], for a backward scan: `seek` becomes the key that all candidates are less than.
fn backward(field: &Field, prefix: &[u8], value: &[u8], seek: &mut Vec<u8>) -> Position {
    let after = field.ranges.partition_point(|range| {
        &*range.start < value || (&*range.start == value && range.start_included)
    });
    let Some(at) = after.checked_sub(1) else { return Position::Beyond };
    let range = &field.ranges[at];
    if value < &*range.end || (value == &*range.end && range.end_included) {
        return Position::Inside;
    }
    seek.clear();
    seek.extend_from_slice(prefix);
    seek.extend_from_slice(&range.end);
    if range.end_included {
        seek.push(keystring::AFTER);
    }
    Position::Seek
}

impl Source for IndexScan {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        if let Some(passed) = self.queue.advance() {
            count(&mut self.stats, passed, cx)?;
            return Ok(true);
        }
        let resumed = self.cursor.is_some();
        if !self.queue.at_end {
            let mut cursor = self.cursor(cx)?;
            if let Some(fields) = self.access.distinct
                && (resumed || self.last.is_some())
            {
                self.pass_value(fields, &mut cursor)?;
            }
            let found = self.find(&mut cursor, usize::MAX, &mut |passed, stats| {
                count(stats, std::mem::take(passed), cx)
            })?;
            if found == Found::Entry {
                self.cursor = Some(cursor);
                return Ok(true);
            }
        }
        let passed = std::mem::take(&mut self.queue.passed);
        count(&mut self.stats, passed, cx)?;
        self.done = true;
        Ok(false)
    }

    fn ahead(&mut self, cx: &mut Cx<'_>, count: usize, out: &mut Vec<RecordId>) -> Result<()> {
        if self.done
            || self.access.distinct.is_some()
            || !self.queue.is_empty()
            || self.queue.at_end
        {
            return Ok(());
        }
        self.queue.clear();
        let mut cursor = self.cursor(cx)?;
        let mut left = count;
        while left > 0 {
            let mut looked = 0;
            let found = self.find(&mut cursor, left, &mut |_, _| {
                looked += 1;
                cx.env.pass()
            })?;
            left -= looked;
            match found {
                Found::Entry => {
                    self.queue.push(&cursor);
                    out.push(cursor.record_id().to_id());
                }
                Found::Nothing => break,
                Found::End => {
                    self.queue.at_end = true;
                    return Ok(());
                }
            }
        }
        self.cursor = Some(cursor);
        Ok(())
    }

    fn doc(&self) -> Doc<'_> {
        match &self.cursor {
            Some(cursor) if self.lends => cursor.doc(),
            _ => Doc::EMPTY,
        }
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        match self.queue.current() {
            Some(entry) => Some(entry.id.key()),
            None => self.cursor.as_ref().map(IndexCursor::record_id),
        }
    }

    fn key(&self) -> Option<(&[u8], &[u8])> {
        match self.queue.current() {
            Some(entry) => Some(self.queue.key(entry)),
            None => self.cursor.as_ref().map(|cursor| (cursor.key(), cursor.type_bits())),
        }
    }

    fn is_at_end(&self) -> bool {
        self.done
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    /// For a scan of one key, whose entries are in the order of their records.
    fn pass_to(&mut self, id: RecordKey<'_>) {
        if let Some(cursor) = &mut self.cursor {
            let key = cursor.key().to_vec();
            cursor.resume_at(&key, id);
            self.stats.seeks += 1;
        }
    }

    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        let index = &self.access.index;
        if self.done || !index.multikey_changed_since(noted) {
            return Ok(false);
        }
        let decides = self.test.is_some() || !self.access.bounds.iter().all(Intervals::is_all);
        if decides && !checked {
            return Err(became_multikey(index));
        }
        self.dedup = true;
        Ok(true)
    }

    fn split(&mut self, cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        if self.done || !self.splits_late() {
            return Ok(None);
        }
        self.save();
        let start = self.last.as_ref().map_or(&self.start, |(key, _)| key);
        let index = &self.access.index;
        let Some(middle) = cx.store.middle_of_index(index, start, &self.end)? else {
            return Ok(None);
        };
        let end = std::mem::replace(&mut self.end, middle.clone());
        Ok(Some(Box::new(self.of_part(middle, end))))
    }

    fn splits_late(&self) -> bool {
        // Each record once: this needs to know all that were seen.
        self.access.forward && self.access.distinct.is_none() && !self.dedup
    }

    fn afresh(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.of_part(self.start.clone(), self.end.clone())))
    }

    fn save(&mut self) {
        let cursor = self.cursor.take();
        if let Some(entry) = self.queue.current() {
            self.last = Some((self.queue.key(entry).0.to_vec(), entry.id.clone()));
        } else if let Some(cursor) = cursor
            && self.queue.is_empty()
        {
            self.last = Some((cursor.key().to_vec(), cursor.record_id().to_id()));
        }
        // Entries that were not requested will be found again.
        for entry in self.queue.rest() {
            self.seen.remove(entry.id.key());
        }
        self.queue = Queue::default();
    }

    fn stats(&self) -> SourceStats {
        // The clustered index stands for the records, which are counted where they are read.
        match self.access.index.spec.is_clustered() {
            true => SourceStats { keys_examined: 0, ..self.stats },
            false => self.stats,
        }
    }
}
