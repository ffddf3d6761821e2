//! Joins by equality, many input documents at a time.
//!
//! ```text
//!   input documents    5 9 5 2        kept, with the key of each one's local value
//!   keys, each once    2 5 9          looked up in the index in order, by one cursor
//!   records            r1 r2 r7       read in one call of the engine
//!   output             5: r2  9: r7  5: r2  2: r1
//! ```
//!
//! For local values that are one number, string, id or date, where the plan for such a value is to walk
//! one index and to fetch: then that index gives, key by key, what the plan would give. Everything else
//! (arrays, null, collations, no index) goes the usual way, document by document, in its turn.
//!
//! Memory: [`BYTES_MAX`] of input documents, as much of records, and one of each beyond. A batch that would
//! take more goes the usual way, and the next ones are smaller.

use std::{ops::Range, sync::Arc};

use nagi_bson::{ArrayWriter, Doc, Value};
use nagi_error::{Error, Result};
use nagi_lang::path::{self, FieldPath, Leaf};
use nagi_store::{Collection, Index, RECORDS_AT_ONCE, RecordBuf, RecordId, keystring};

use crate::source::{Cx, Seen, Source, carry, document, metadata};

/// Bytes of input documents, and of records, that are held at most.
const BYTES_MAX: usize = 1 << 20;
/// Entries of the index that a batch leads to at most.
const ENTRIES_MAX: usize = 4096;

/// The index that a plan finds the documents of each key by.
pub(super) struct Way {
    pub(super) collection: Arc<Collection>,
    pub(super) index: Arc<Index>,
}

/// Input documents that were read and not passed on yet, and what belongs to them.
#[derive(Default)]
pub(super) struct Batch {
    inputs: Vec<Input>,
    bytes: Vec<u8>,
    /// Those before it were passed on.
    next: usize,
    /// What the input failed with behind the last of them.
    error: Option<Error>,
    /// How many documents were read last time.
    count: usize,
    keys: Vec<u8>,
    /// Inputs that have keys, by their keys.
    order: Vec<u32>,
    /// What the index has for the keys, key by key.
    entries: Vec<RecordId>,
    /// Those records, ascending, and where they lie in `found`.
    records: Vec<(RecordId, Range<usize>)>,
    found: Vec<u8>,
    buf: RecordBuf,
}

/// A document of the input.
struct Input {
    doc: Range<usize>,
    /// The key of its local value; empty if it is not a simple one.
    key: Range<usize>,
    /// What belongs to it, in `entries`; none if that is found out in its turn.
    entries: Option<Range<usize>>,
}

/// Appends the key of the local value, if it is a single one that any plain index holds as it is; else
/// false.
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

/// Whether the index has, for a simple value, the entries of just the documents that hold it at `path`.
pub(super) fn serves(index: &Index, path: &FieldPath) -> bool {
    let spec = &index.spec;
    let special = !spec.kind.facts().whole
        || spec.partial.is_some()
        || spec.collation.is_some()
        || spec.is_clustered();
    let first = &spec.key[0];
    !special && first.holds_value() && *first.path == *path.as_str() && !path.has_index()
}

impl Batch {
    /// Whether all documents were passed on.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.inputs.len()
    }

    /// Reads input documents: one, then 2, 4, 8, ... False at the end of the input.
    pub(super) fn gather(&mut self, input: &mut dyn Source, cx: &mut Cx<'_>) -> Result<bool> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.inputs.clear();
        self.bytes.clear();
        self.next = 0;
        let max = cx.env.interrupt().records_ahead_max();
        self.count = (self.count * 2).clamp(1, max.max(1));
        while self.inputs.len() < self.count && self.bytes.len() < BYTES_MAX {
            match input.advance(cx) {
                Ok(true) => {
                    let start = self.bytes.len();
                    carry(input, &mut self.bytes);
                    let doc = start..self.bytes.len();
                    self.inputs.push(Input { doc, key: 0..0, entries: None });
                }
                Ok(false) => break,
                Err(error) if self.inputs.is_empty() => return Err(error),
                // Those before it are passed on first: no one may ask for more than them.
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok(!self.inputs.is_empty())
    }

    /// A document whose local value is simple, if there are several documents that wait.
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

    /// Finds what belongs to the documents that wait, as far as their local values are simple.
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

    /// Fills `entries`; false if they are too many.
    fn look_up(&mut self, way: &Way, cx: &Cx<'_>) -> Result<bool> {
        let Batch { inputs, keys, order, entries, .. } = self;
        let key = |inputs: &[Input], at: u32| inputs[at as usize].key.clone();
        let (Some(first), Some(last)) = (order.first(), order.last()) else { return Ok(true) };
        let start = &keys[key(inputs, *first)];
        let end = [&keys[key(inputs, *last)], &[keystring::AFTER]].concat();
        let mut cursor = cx.reader.index_cursor(&way.index, true, start, &end)?;
        // Of a compound index a record with arrays may have several entries for a key.
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

    /// Fills `records`; false if they are too large.
    fn read(&mut self, way: &Way, cx: &Cx<'_>) -> Result<bool> {
        let mut ids = self.entries.clone();
        ids.sort_unstable();
        ids.dedup();
        for part in ids.chunks(RECORDS_AT_ONCE) {
            // Each of them may have to come from the disk.
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

    /// The document passed on last.
    pub(super) fn doc(&self) -> Doc<'_> {
        document(&self.bytes[self.inputs[self.next - 1].doc.clone()])
    }

    /// Copies it, with its metadata, as `carry` does.
    pub(super) fn carry(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[self.inputs[self.next - 1].doc.clone()]);
    }

    /// Its metadata.
    pub(super) fn meta(&self) -> Doc<'_> {
        metadata(&self.bytes[self.inputs[self.next - 1].doc.clone()])
    }

    /// Writes what belongs to it and says how many entries led there; none if that is still to be found
    /// out. `fits` is told the bytes so far.
    pub(super) fn write(
        &self,
        out: &mut ArrayWriter<'_>,
        fits: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Some(entries) = self.inputs[self.next - 1].entries.clone() else { return Ok(None) };
        let count = entries.len() as u64;
        for id in &self.entries[entries] {
            if let Ok(at) = self.records.binary_search_by(|(other, _)| other.cmp(id)) {
                out.push_doc(Doc::trusted(&self.found[self.records[at].1.clone()]));
                fits(out.len())?;
            }
        }
        Ok(Some(count))
    }

    /// Drops what was found: another state is going to be read, or the usual way is taken.
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

    /// The same, and gives the memory back. The next input documents are few again.
    pub(super) fn save(&mut self) {
        self.forget();
        self.found = Vec::new();
        self.count = 0;
    }
}
