//! The blocking sort: reads all its input, then yields it in order.
//!
//! ```text
//!   input -> key string + document -> entries in memory --full--> sorted run on disk
//!                                         |                          |
//!                                         +-- sorted --> output <----+ merged while they are read
//! ```
//!
//! With a limit of k it is a top-k sort: it holds at most 2 k entries and cuts them back to the best k when full.
//! Once there are k, documents after the last of them are not even copied. Keys are key strings, so comparing them
//! is comparing bytes. Ties keep the order of the input.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::{MetaKind, Metadata},
    ordered,
    sort::SortSpec,
};
use nagi_store::{Index, RecordId, RecordKey, Spill, keystring};

use crate::figures::{SortFigures, note_sort};

use super::{
    Cx, Gather, OperatorMemory, Random, Source, SourceStats, document, drain, gathers_portions,
    metadata, put_key, runs::Runs, serialize,
};

/// Memory of an entry in addition to its document and key.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// Limits of a sort.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortLimits {
    /// Largest number of documents needed.
    pub(crate) count: Option<u64>,
    pub(crate) memory_bytes: usize,
    pub(crate) allow_disk_use: bool,
}

pub(crate) struct Sort {
    /// The input, and the source of its later part if it was split.
    inputs: Vec<Box<dyn Source>>,
    gathered: Entries,
    output: Output,
}

/// The entries gathered so far, in memory and in runs.
struct Entries {
    sort: Arc<SortSpec>,
    limits: SortLimits,
    /// The part of the limit that this half may use.
    memory_bytes_max: usize,
    entries: Vec<Entry>,
    /// The key of the last of the best k entries, once there were more: a document that is not before it is not
    /// among them.
    bar: Option<Vec<u8>>,
    /// Number of the next entry.
    order: u64,
    held_bytes: usize,
    held: OperatorMemory,
    /// Spills, in the order of their documents.
    spills: Vec<Spill>,
    random: Option<Random>,
    /// The index whose keys are kept as metadata of the documents.
    keyed_by: Option<Arc<Index>>,
    /// Buffers for the next entry and its values.
    scratch: Vec<u8>,
    values: Vec<u8>,
    stats: SourceStats,
}

/// The output, once the input is exhausted.
enum Output {
    /// The input is not read yet.
    Unread,
    /// Position after the current entry.
    Memory(usize),
    /// Merged runs; the number of documents still wanted; true if one is current.
    Disk { runs: Runs, left: u64, is_current: bool },
}

struct Entry {
    /// The key's first bytes: most keys differ there, so that the rest is not compared.
    prefix: u64,
    /// Key, then document with its metadata.
    bytes: Box<[u8]>,
    doc_start: u32,
    order: u64,
    /// Its record. An entry without a record has an empty key, which no record has; so the field takes no extra
    /// space.
    id: RecordId,
}

/// Writes the sort key of a document as bytes whose order is the sort's.
fn sort_key(
    sort: &SortSpec,
    doc: Doc<'_>,
    meta: &Metadata<'_>,
    values: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<()> {
    values.clear();
    sort.key_with(doc, meta, values)?;
    for (element, part) in Doc::trusted(values).iter().zip(sort.parts()) {
        let keyed = sort.collation().and_then(|collation| collation.keyed(element.value()));
        let value = keyed.as_ref().map_or(element.value(), ValueBuf::value);
        keystring::append(value, part.descending, out);
    }
    Ok(())
}

/// Appends the current document of `source`, with its metadata and its key in `index`.
fn carry_keyed(
    source: &dyn Source,
    index: &Index,
    (key, type_bits): (&[u8], &[u8]),
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut bytes = Vec::new();
    let mut fields = DocWriter::new(&mut bytes);
    put_key(index, key, type_bits, &mut fields)?;
    fields.finish();
    out.extend_from_slice(source.doc().as_bytes());
    let meta = DocBuf::build(|meta| {
        meta.extend(source.meta());
        meta.put(Metadata::INDEX_KEY, Value::Doc(Doc::trusted(&bytes)));
    });
    out.extend_from_slice(meta.as_doc().as_bytes());
    Ok(())
}

/// The first bytes of a key as a number with the same order; missing bytes are zeros.
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = key.len().min(first.len());
    first[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(first)
}

/// Writes the record id before a document: its kind (0 none, 1 a number, 2 a key), then the number or the key's
/// length, then the key.
fn append_id(id: Option<RecordKey<'_>>, value: &mut Vec<u8>) {
    let (kind, number, key): (u8, i64, &[u8]) = match id {
        None => (0, 0, &[]),
        Some(RecordKey::Id(number)) => (1, number, &[]),
        Some(RecordKey::Key(key)) => (2, key.len() as i64, key),
    };
    value.push(kind);
    value.extend_from_slice(&number.to_le_bytes());
    value.extend_from_slice(key);
}

/// Parses the record id, and returns the rest.
fn split_id(value: &[u8]) -> Option<(Option<RecordKey<'_>>, &[u8])> {
    let (kind, rest) = value.split_first()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let number = i64::from_le_bytes(*number);
    match kind {
        0 => Some((None, rest)),
        1 => Some((Some(RecordKey::Id(number)), rest)),
        _ => {
            let (key, rest) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            Some((Some(RecordKey::Key(key)), rest))
        }
    }
}

impl Entry {
    /// Orders by key, then by the order of the input.
    fn compare(&self, other: &Entry) -> std::cmp::Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| self.key().cmp(other.key()))
            .then_with(|| self.order.cmp(&other.order))
    }

    /// Its record, if it has one.
    fn record(&self) -> Option<RecordKey<'_>> {
        Some(self.id.key()).filter(|id| *id != RecordKey::Key(&[]))
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..self.doc_start as usize]
    }

    /// The document with its metadata.
    fn carried(&self) -> &[u8] {
        &self.bytes[self.doc_start as usize..]
    }
}

impl Gather for Entries {
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()> {
        self.scratch.clear();
        let mut meta = match self.sort.needs_meta() {
            true => Metadata::read(input.meta()),
            false => Metadata::default(),
        };
        if let Some(random) = &mut self.random {
            meta.rand_val = Some(random.value());
        }
        sort_key(&self.sort, input.doc(), &meta, &mut self.values, &mut self.scratch)?;
        let order = self.order;
        self.order += 1;
        if self.bar.as_ref().is_some_and(|bar| self.scratch >= *bar) {
            return Ok(());
        }
        let doc_start = self.scratch.len() as u32;
        match (&self.keyed_by, input.key()) {
            (Some(index), Some(key)) => carry_keyed(input, index, key, &mut self.scratch)?,
            _ => serialize(input, &mut self.scratch),
        }
        let id = input.record_id().unwrap_or(RecordKey::Key(&[])).to_id();
        let bytes = self.scratch.as_slice().into();
        let prefix = prefix(&self.scratch[..doc_start as usize]);
        self.push(Entry { prefix, bytes, doc_start, order, id }, cx)
    }

    /// The memory is halved. Entries beyond it are spilled, so spilling must be allowed.
    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Entries>> {
        if !self.limits.allow_disk_use || self.random.is_some() {
            return Ok(None);
        }
        self.memory_bytes_max = self.limits.memory_bytes / 2;
        let beside = Entries::new(self.sort.clone(), self.limits);
        let keyed_by = self.keyed_by.clone();
        Ok(Some(Entries { memory_bytes_max: self.memory_bytes_max, keyed_by, ..beside }))
    }

    fn alone(&mut self) {
        self.memory_bytes_max = self.limits.memory_bytes;
    }

    fn join(&mut self, mut later: Entries, cx: &mut Cx<'_>) -> Result<()> {
        let first = self.order;
        self.order += later.order;
        self.stats.bytes_held += later.stats.bytes_held;
        if !later.spills.is_empty() {
            if !self.entries.is_empty() {
                self.write_run(cx)?;
            }
            self.spills.append(&mut later.spills);
        }
        for entry in later.entries {
            cx.pass()?;
            self.push(Entry { order: first + entry.order, ..entry }, cx)?;
        }
        Ok(())
    }
}

impl Entries {
    fn new(sort: Arc<SortSpec>, limits: SortLimits) -> Entries {
        Entries {
            random: sort.metas().contains(MetaKind::RandVal).then(Random::new),
            keyed_by: None,
            sort,
            limits,
            memory_bytes_max: limits.memory_bytes,
            entries: Vec::new(),
            bar: None,
            order: 0,
            held_bytes: 0,
            held: OperatorMemory::default(),
            spills: Vec::new(),
            scratch: Vec::new(),
            values: Vec::new(),
            stats: SourceStats::default(),
        }
    }

    /// The number of documents wanted.
    fn keep(&self) -> Option<usize> {
        self.limits.count.map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn push(&mut self, entry: Entry, cx: &Cx<'_>) -> Result<()> {
        let keep = self.keep();
        self.held_bytes += entry.bytes.len() + ENTRY_BYTES;
        self.entries.push(entry);
        if self.entries.len() >= keep.map_or(usize::MAX, |n| n.saturating_mul(2).max(64)) {
            self.cut(keep.unwrap_or(usize::MAX));
        }
        if self.held_bytes > self.memory_bytes_max || !self.held.fits(cx, self.held_bytes) {
            self.over_memory(keep, cx)?;
        }
        Ok(())
    }

    /// What was sorted, once the input is finished.
    fn figures(&self) -> SortFigures {
        SortFigures {
            keys: self.order,
            bytes: self.stats.bytes_held + self.stats.bytes_spilled,
            spills: self.stats.spills,
        }
    }

    /// Finishes the input and determines where results are read from.
    fn output(&mut self, cx: &Cx<'_>) -> Result<Output> {
        self.stats.bytes_held += self.held_bytes as u64;
        if self.spills.is_empty() {
            self.order(cx)?;
            if let Some(keep) = self.keep() {
                self.entries.truncate(keep);
            }
            return Ok(Output::Memory(0));
        }
        self.write_run(cx)?;
        self.held.keep(0);
        self.spills.iter().for_each(|spill| self.stats.note_spill(spill));
        let left = self.limits.count.unwrap_or(u64::MAX);
        let runs = Runs::open_all(std::mem::take(&mut self.spills), &|a, b| a.cmp(b), cx)?;
        Ok(Output::Disk { runs, left, is_current: false })
    }

    fn over_memory(&mut self, keep: Option<usize>, cx: &Cx<'_>) -> Result<()> {
        if let Some(keep) = keep
            && self.entries.len() > keep
        {
            self.cut(keep);
            self.held.keep(self.held_bytes);
            if self.held_bytes <= self.memory_bytes_max && self.held.fits(cx, self.held_bytes) {
                return Ok(());
            }
        }
        if !self.limits.allow_disk_use {
            if self.held_bytes <= self.limits.memory_bytes {
                return Err(self.held.full());
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. \
                 Aborting operation. Pass allowDiskUse:true to opt in.",
                self.limits.memory_bytes
            );
        }
        self.write_run(cx)?;
        self.held.keep(0);
        Ok(())
    }

    /// Writes the entries in order as a run, with the record id before each document.
    fn write_run(&mut self, cx: &Cx<'_>) -> Result<()> {
        self.order(cx)?;
        let mut entries = std::mem::take(&mut self.entries).into_iter();
        self.stats.bytes_held += self.held_bytes as u64;
        self.held_bytes = 0;
        if self.spills.is_empty() {
            self.spills.push(cx.store.spill());
        }
        let Some(spill) = self.spills.last_mut() else { return Ok(()) };
        spill.write_run(&mut |key, value| {
            let Some(entry) = entries.next() else { return Ok(false) };
            cx.pass()?;
            key.extend_from_slice(entry.key());
            append_id(entry.record(), value);
            value.extend_from_slice(entry.carried());
            Ok(true)
        })
    }

    fn order(&mut self, cx: &Cx<'_>) -> Result<()> {
        ordered::order(&mut self.entries, &Entry::compare, &mut || cx.pass())
    }

    /// Keeps the best `keep` entries.
    fn cut(&mut self, keep: usize) {
        if keep == 0 || keep >= self.entries.len() {
            return;
        }
        self.entries.select_nth_unstable_by(keep - 1, Entry::compare);
        let dropped: usize = self.entries[keep..].iter().map(|e| e.bytes.len() + ENTRY_BYTES).sum();
        self.held_bytes -= dropped;
        self.entries.truncate(keep);
        self.bar = self.entries.last().map(|last| last.key().to_vec());
    }
}

impl Sort {
    pub(crate) fn new(input: Box<dyn Source>, sort: Arc<SortSpec>, limits: SortLimits) -> Sort {
        let gathered = Entries::new(sort, limits);
        Sort { inputs: vec![input], gathered, output: Output::Unread }
    }

    /// Keeps the key of each document in an index as its metadata.
    pub(crate) fn keyed_by(mut self, index: Option<Arc<Index>>) -> Sort {
        self.gathered.keyed_by = index;
        self
    }

    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let helper = drain(&mut *self.inputs[0], &mut self.gathered, cx)?;
        self.inputs.extend(helper);
        self.output = self.gathered.output(cx)?;
        note_sort(cx.store, self.gathered.figures());
        Ok(())
    }

    fn next_from_disk(&mut self) -> Result<bool> {
        let Output::Disk { runs, left, is_current } = &mut self.output else { return Ok(false) };
        *is_current = *left > 0 && runs.advance(&|a, b| a.cmp(b))?;
        *left = if *is_current { *left - 1 } else { 0 };
        Ok(*is_current)
    }

    /// The current document with its metadata, and its record.
    fn current(&self) -> Option<(Option<RecordKey<'_>>, &[u8])> {
        match &self.output {
            Output::Memory(next) => {
                let entry = self.gathered.entries.get(next.checked_sub(1)?)?;
                Some((entry.record(), entry.carried()))
            }
            Output::Disk { runs, is_current: true, .. } => {
                let (_, value) = runs.entry().ok()?;
                split_id(value)
            }
            _ => None,
        }
    }
}

impl Source for Sort {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if let Output::Unread = self.output {
            self.fill(cx)?;
        }
        cx.pass()?;
        let Output::Memory(next) = &mut self.output else { return self.next_from_disk() };
        let entries = &mut self.gathered.entries;
        if *next >= entries.len() {
            return Ok(false);
        }
        if let Some(last) = next.checked_sub(1) {
            // A document that was returned is not needed again.
            entries[last].bytes = Box::default();
            entries[last].doc_start = 0;
        }
        *next += 1;
        Ok(true)
    }

    gathers_portions!(gathered);

    fn doc(&self) -> Doc<'_> {
        self.current().map_or(Doc::EMPTY, |(_, carried)| document(carried))
    }

    fn meta(&self) -> Doc<'_> {
        self.current().map_or(Doc::EMPTY, |(_, carried)| metadata(carried))
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.current().and_then(|(id, _)| id)
    }

    fn is_at_end(&self) -> bool {
        match &self.output {
            Output::Unread => false,
            Output::Memory(next) => *next >= self.gathered.entries.len(),
            Output::Disk { left, .. } => *left == 0,
        }
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn save(&mut self) {
        self.gathered.held.park();
        self.inputs.iter_mut().for_each(|input| input.save());
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.gathered.held.resume();
        // Once sorted, the input is not read again.
        match self.output {
            Output::Unread => self.inputs[0].restore(cx),
            _ => Ok(()),
        }
    }

    fn stats(&self) -> SourceStats {
        self.gathered.stats
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        let stats = &self.gathered.stats;
        out.put("totalDataSizeSortedBytesEstimate", stats.bytes_held as i64);
        stats.show_spills(out);
    }
}
