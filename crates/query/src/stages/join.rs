//! Batched index joins by equality, for many input documents at a time.
//!
//! ```text
//!   input documents    5 9 5 2        kept, with the key of each local value
//!   distinct keys      2 5 9          looked up in the index in order, by one cursor
//!   records            r1 r2 r7       read in one call of the engine
//!   output             5: r2  9: r7  5: r2  2: r1
//! ```
//!
//! It is used for local values that are a single number, string, id or date, if the plan for such a value is to
//! scan one index and to fetch: then that index yields, key by key, the same as the plan. All other documents
//! (arrays, null, collations, no index) are joined by a plan of their own, document by document, when their turn
//! comes.
//!
//! Memory: [`BYTES_MAX`] of input documents, the same of records, and one of each beyond. A batch that would exceed
//! that is joined document by document, and the next batches are smaller.

use std::{ops::Range, sync::Arc};

use nagi_bson::{ArrayWriter, Doc, Value};
use nagi_error::{Error, Result};
use nagi_lang::path::{self, FieldPath, Leaf};
use nagi_store::{Collection, Index, RecordBuf, RecordId, keystring};

use crate::source::{Cx, Seen, Source, document, metadata, serialize};

/// Limit of the bytes of input documents, and of records, that are held.
const BYTES_MAX: usize = 1 << 20;
/// Limit of the index entries of a batch.
const ENTRIES_MAX: usize = 4096;
/// Documents that are joined at once from the beginning if a look-up is a round trip to another machine.
const FAR_COUNT: usize = 64;

/// The access path with which a plan finds the documents of a key.
pub(super) struct Way {
    pub(super) collection: Arc<Collection>,
    pub(super) index: Arc<Index>,
}

impl Way {
    /// It is the index on `_id`, whose keys are whole values.
    fn is_by_id(&self) -> bool {
        self.collection.id_index().is_some_and(|index| Arc::ptr_eq(index, &self.index))
    }
}

/// Input documents that are not passed on yet, with their joined records.
#[derive(Default)]
pub(super) struct Batch {
    inputs: Vec<Input>,
    bytes: Vec<u8>,
    /// Position of the next document to pass on.
    next: usize,
    /// The error with which the input failed after the last of them.
    error: Option<Error>,
    /// Number of documents read last time.
    count: usize,
    keys: Vec<u8>,
    /// The inputs that have keys, ordered by key.
    order: Vec<u32>,
    /// The index entries of the keys, key by key.
    entries: Vec<RecordId>,
    /// The records of the entries, ascending, and their positions in `found`.
    records: Vec<(RecordId, Range<usize>)>,
    found: Vec<u8>,
    buf: RecordBuf,
}

/// An input document.
struct Input {
    doc: Range<usize>,
    /// The key of its local value; empty if the value is not a simple one.
    key: Range<usize>,
    /// Its entries, in `entries`; none if they are determined when its turn comes.
    entries: Option<Range<usize>>,
}

/// Appends the key of the local value, if it is a single value that every plain index stores unchanged. Otherwise
/// returns false.
fn append_key(
    doc: Doc<'_>,
    local: &FieldPath,
    descending: bool,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let start = out.len();
    let (mut count, mut is_simple) = (0, true);
    path::any(doc, local, Leaf::Whole, &mut |value, _| {
        count += 1;
        is_simple &= matches!(
            value,
            Value::Int32(_)
                | Value::Int64(_)
                | Value::Double(_)
                | Value::String(_)
                | Value::ObjectId(_)
                | Value::Bool(_)
                | Value::DateTime(_)
        );
        if is_simple && count == 1 {
            keystring::append(value, descending, out);
        }
        Ok(false)
    })?;
    let is_one = is_simple && count == 1;
    if !is_one {
        out.truncate(start);
    }
    Ok(is_one)
}

/// Returns true if the index has, for a simple value, entries for exactly the documents that have the value at
/// `path`.
pub(super) fn serves(index: &Index, path: &FieldPath) -> bool {
    let spec = &index.spec;
    let special = !spec.kind.facts().whole || spec.partial.is_some() || spec.collation.is_some();
    let first = &spec.key[0];
    !special && first.holds_value() && *first.path == *path.as_str() && !path.has_index()
}

impl Batch {
    /// Returns true if all documents were passed on.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.inputs.len()
    }

    /// Reads input documents: one, then 2, 4, 8, ..., and many from the beginning if each look-up is a round trip.
    /// Returns false at the end of the input.
    pub(super) fn gather(&mut self, input: &mut dyn Source, cx: &mut Cx<'_>) -> Result<bool> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.inputs.clear();
        self.bytes.clear();
        self.next = 0;
        let max = cx.env.interrupt().records_ahead_max();
        let least = if cx.reader.is_far() { FAR_COUNT } else { 1 };
        self.count = (self.count * 2).clamp(least.min(max.max(1)), max.max(1));
        while self.inputs.len() < self.count && self.bytes.len() < BYTES_MAX {
            match input.advance(cx) {
                Ok(true) => {
                    let start = self.bytes.len();
                    serialize(input, &mut self.bytes);
                    let doc = start..self.bytes.len();
                    self.inputs.push(Input { doc, key: 0..0, entries: None });
                }
                Ok(false) => break,
                Err(error) if self.inputs.is_empty() => return Err(error),
                // The documents before it are passed on first: the caller may not request more than these.
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok(!self.inputs.is_empty())
    }

    /// A document with a simple local value, if several documents are waiting.
    pub(super) fn example(&mut self, local: &FieldPath) -> Result<Option<Doc<'_>>> {
        let waiting = &self.inputs[self.next..];
        if waiting.len() < 2 {
            return Ok(None);
        }
        for input in waiting {
            let doc = document(&self.bytes[input.doc.clone()]);
            self.keys.clear();
            if append_key(doc, local, false, &mut self.keys)? {
                return Ok(Some(doc));
            }
        }
        Ok(None)
    }

    /// Joins the waiting documents whose local values are simple.
    pub(super) fn join(&mut self, way: &Way, local: &FieldPath, cx: &Cx<'_>) -> Result<()> {
        self.forget();
        let descending = way.index.spec.key[0].descending;
        for (at, input) in self.inputs.iter_mut().enumerate().skip(self.next) {
            let start = self.keys.len();
            let doc = document(&self.bytes[input.doc.clone()]);
            if append_key(doc, local, descending, &mut self.keys)? {
                way.index.note_use();
                input.key = start..self.keys.len();
                self.order.push(at as u32);
            }
        }
        let (inputs, keys) = (&self.inputs, &self.keys);
        let key = |at: u32| &keys[inputs[at as usize].key.clone()];
        self.order.sort_unstable_by(|a, b| key(*a).cmp(key(*b)));
        if self.look_up(way, cx)? && self.read(way, cx)? {
            return Ok(());
        }
        self.count = (self.count / 4).max(1);
        self.forget();
        Ok(())
    }

    /// Fills `entries`. Returns false if there are too many.
    fn look_up(&mut self, way: &Way, cx: &Cx<'_>) -> Result<bool> {
        let Batch { inputs, keys, order, entries, .. } = self;
        let key = |inputs: &[Input], at: u32| inputs[at as usize].key.clone();
        let (Some(first), Some(last)) = (order.first(), order.last()) else { return Ok(true) };
        if way.is_by_id() && (way.index.is_of_records() || cx.reader.is_far()) {
            return self.look_up_ids(way, cx);
        }
        let start = &keys[key(inputs, *first)];
        let end = [&keys[key(inputs, *last)], &[keystring::AFTER]].concat();
        let mut values: Vec<&[u8]> = order.iter().map(|at| &keys[key(inputs, *at)]).collect();
        values.dedup();
        let is_one_field = way.index.spec.key.len() == 1;
        let values = if is_one_field { &values[..] } else { &[] };
        let mut cursor = match cx.reader.index_cursor_at(&way.index, true, values)? {
            Some(cursor) => cursor,
            None => cx.reader.index_cursor(&way.index, true, start, &end)?,
        };
        // In a compound index, a record with arrays may have several entries for a key.
        let dedup = way.index.spec.key.len() > 1 && way.index.is_multikey();
        let mut seen = Seen::default();
        let mut more = true;
        let mut at = 0;
        while at < order.len() {
            let wanted = &keys[key(inputs, order[at])];
            let begin = entries.len();
            seen.clear();
            if more && (at == 0 || cursor.key() < wanted) {
                cursor.seek(wanted);
                more = cursor.advance()?;
            }
            while more && cursor.key().starts_with(wanted) {
                cx.tick()?;
                if !dedup || seen.insert(cursor.record_id()) {
                    entries.push(cursor.record_id().to_id());
                }
                if entries.len() > ENTRIES_MAX {
                    return Ok(false);
                }
                more = cursor.advance()?;
            }
            cx.tick()?;
            let same = order[at..]
                .iter()
                .take_while(|other| keys[key(inputs, **other)] == *wanted)
                .count();
            for other in &order[at..at + same] {
                inputs[*other as usize].entries = Some(begin..entries.len());
            }
            at += same;
        }
        Ok(true)
    }

    /// The same by batched gets: a seek for each key would be a round trip for each, and a clustered collection has no
    /// other entries than its records.
    fn look_up_ids(&mut self, way: &Way, cx: &Cx<'_>) -> Result<bool> {
        let Batch { inputs, keys, order, entries, .. } = self;
        let key = |at: u32| &keys[inputs[at as usize].key.clone()];
        let mut distinct: Vec<&[u8]> = order.iter().map(|at| key(*at)).collect();
        distinct.dedup();
        let mut found = vec![None; distinct.len()];
        cx.reader.find_ids(&way.index, &distinct, &mut |at, id| found[at] = Some(id))?;
        cx.tick()?;
        let mut ranges = Vec::with_capacity(distinct.len());
        for id in found {
            let begin = entries.len();
            entries.extend(id);
            ranges.push(begin..entries.len());
        }
        let of = |at: u32| distinct.binary_search(&key(at)).ok().map(|found| ranges[found].clone());
        let ranges: Vec<_> = order.iter().map(|at| (*at, of(*at))).collect();
        for (at, range) in ranges {
            inputs[at as usize].entries = range;
        }
        Ok(true)
    }

    /// Fills `records`. Returns false if they are too large.
    fn read(&mut self, way: &Way, cx: &Cx<'_>) -> Result<bool> {
        let mut ids = self.entries.clone();
        ids.sort_unstable();
        ids.dedup();
        for part in ids.chunks(cx.reader.records_at_once()) {
            // Each of them may have to be read from disk.
            cx.env.interrupt().check()?;
            let (records, found) = (&mut self.records, &mut self.found);
            cx.reader.records(&way.collection, part, &mut self.buf, &mut |at, doc| {
                let Some(doc) = doc.filter(|_| found.len() <= BYTES_MAX) else { return };
                let start = found.len();
                found.extend_from_slice(doc.as_bytes());
                records.push((part[at].clone(), start..found.len()));
            })?;
            part.iter().try_for_each(|_| cx.tick())?;
            if self.found.len() > BYTES_MAX {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes on the next document.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// The document that was passed on last.
    pub(super) fn doc(&self) -> Doc<'_> {
        document(&self.bytes[self.inputs[self.next - 1].doc.clone()])
    }

    /// Copies that document, with its metadata, as `serialize` does.
    pub(super) fn serialize(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[self.inputs[self.next - 1].doc.clone()]);
    }

    /// The metadata of that document.
    pub(super) fn meta(&self) -> Doc<'_> {
        metadata(&self.bytes[self.inputs[self.next - 1].doc.clone()])
    }

    /// Writes the records joined to that document. Returns their number, or none if they are not determined yet. `fits`
    /// is called with the number of bytes so far.
    pub(super) fn write(
        &self,
        out: &mut ArrayWriter<'_>,
        fits: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Some(entries) = self.inputs[self.next - 1].entries.clone() else { return Ok(None) };
        let mut count = 0;
        for id in &self.entries[entries] {
            // Of a clustered collection not every entry exists.
            if let Ok(at) = self.records.binary_search_by(|(other, _)| other.cmp(id)) {
                count += 1;
                out.push_doc(Doc::trusted(&self.found[self.records[at].1.clone()]));
                fits(out.len())?;
            }
        }
        Ok(Some(count))
    }

    /// Drops the results: another snapshot will be read, or documents are joined one by one.
    fn forget(&mut self) {
        self.keys.clear();
        self.order.clear();
        self.entries.clear();
        self.records.clear();
        self.found.clear();
        for input in &mut self.inputs {
            (input.key, input.entries) = (0..0, None);
        }
    }

    /// Drops the results and releases the memory. The next batches are small again.
    pub(super) fn save(&mut self) {
        self.forget();
        self.found = Vec::new();
        self.count = 0;
    }
}
