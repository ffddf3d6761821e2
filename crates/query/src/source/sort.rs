//! The blocking sort: reads all its input, then yields it in order.
//!
//! With a limit it keeps only the best so many (twice that at most, cut back when full), so a top-k
//! needs no memory for the rest. What does not fit in memory is written to disk in sorted runs, which
//! are merged while they are read. Keys are key strings, so comparing them is comparing bytes. Ties
//! keep the order of the input.

use std::{slice, sync::Arc};

use nagi_bson::{Doc, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::{MetaKind, Metadata},
    sort::SortSpec,
};
use nagi_store::{RecordId, Spill, keystring};

use super::{
    Cx, Held, Random, Source, SourceStats, carry, document, metadata, ordered, runs::Runs,
};

/// Bytes an entry costs beside its document and key.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// Limits of a sort.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortLimits {
    /// Documents needed at most.
    pub(crate) count: Option<u64>,
    pub(crate) memory_bytes: usize,
    pub(crate) allow_disk_use: bool,
}

pub(crate) struct Sort {
    input: Box<dyn Source>,
    sort: Arc<SortSpec>,
    limits: SortLimits,
    entries: Vec<Entry>,
    held_bytes: usize,
    held: Held,
    spill: Option<Spill>,
    output: Output,
    stats: SourceStats,
}

/// What is being read once the input is at its end.
enum Output {
    /// The input is not read yet.
    Unread,
    /// Position behind the current entry.
    Memory(usize),
    /// Merged runs; the documents still wanted; the current document, with its metadata, and record.
    Disk { runs: Runs, left: u64, doc: Vec<u8>, id: Option<RecordId> },
}

struct Entry {
    /// Key, then document with its metadata.
    bytes: Box<[u8]>,
    doc_start: u32,
    order: u64,
    id: Option<RecordId>,
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

impl Entry {
    /// By key, then in the order of the input.
    fn compare(&self, other: &Entry) -> std::cmp::Ordering {
        self.key().cmp(other.key()).then_with(|| self.order.cmp(&other.order))
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..self.doc_start as usize]
    }

    /// The document with its metadata.
    fn carried(&self) -> &[u8] {
        &self.bytes[self.doc_start as usize..]
    }
}

impl Sort {
    pub(crate) fn new(input: Box<dyn Source>, sort: Arc<SortSpec>, limits: SortLimits) -> Sort {
        Sort {
            input,
            sort,
            limits,
            entries: Vec::new(),
            held_bytes: 0,
            held: Held::default(),
            spill: None,
            output: Output::Unread,
            stats: SourceStats::default(),
        }
    }

    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let keep = self.limits.count.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let cut_at = keep.map_or(usize::MAX, |n| n.saturating_mul(2).max(64));
        let (mut scratch, mut values) = (Vec::new(), Vec::new());
        let mut random = self.sort.metas().contains(MetaKind::RandVal).then(Random::new);
        let mut order = 0;
        while self.input.advance(cx)? {
            scratch.clear();
            let mut meta = match self.sort.needs_meta() {
                true => Metadata::read(self.input.meta()),
                false => Metadata::default(),
            };
            if let Some(random) = &mut random {
                meta.rand_val = Some(random.value());
            }
            sort_key(&self.sort, self.input.doc(), &meta, &mut values, &mut scratch)?;
            let doc_start = scratch.len() as u32;
            carry(&*self.input, &mut scratch);
            self.held_bytes += scratch.len() + ENTRY_BYTES;
            let id = self.input.record_id();
            self.entries.push(Entry { bytes: scratch.as_slice().into(), doc_start, order, id });
            order += 1;
            if self.entries.len() >= cut_at {
                self.cut(keep.unwrap_or(usize::MAX));
            }
            if self.held_bytes > self.limits.memory_bytes || !self.held.fits(cx, self.held_bytes) {
                self.over_memory(keep, cx)?;
            }
        }
        self.stats.bytes_held += self.held_bytes as u64;
        self.order(cx)?;
        self.output = match self.spill.take() {
            None => {
                if let Some(keep) = keep {
                    self.entries.truncate(keep);
                }
                Output::Memory(0)
            }
            Some(mut spill) => {
                self.write_run(&mut spill, cx)?;
                self.held.keep(0);
                self.stats.bytes_spilled = spill.bytes();
                let left = self.limits.count.unwrap_or(u64::MAX);
                Output::Disk { runs: Runs::open(spill)?, left, doc: Vec::new(), id: None }
            }
        };
        Ok(())
    }

    fn over_memory(&mut self, keep: Option<usize>, cx: &Cx<'_>) -> Result<()> {
        if let Some(keep) = keep
            && self.entries.len() > keep
        {
            self.cut(keep);
            self.held.keep(self.held_bytes);
            if self.held_bytes <= self.limits.memory_bytes && self.held.fits(cx, self.held_bytes) {
                return Ok(());
            }
        }
        if !self.limits.allow_disk_use {
            if self.held_bytes <= self.limits.memory_bytes {
                bail!(Code::EXCEEDED_MEMORY_LIMIT, "{}", Held::FULL);
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. \
                 Aborting operation. Pass allowDiskUse:true to opt in.",
                self.limits.memory_bytes
            );
        }
        self.order(cx)?;
        let mut spill = self.spill.take().unwrap_or_else(|| cx.store.spill());
        self.write_run(&mut spill, cx)?;
        self.held.keep(0);
        self.spill = Some(spill);
        Ok(())
    }

    /// Writes the ordered entries as a run: the record id before the document.
    fn write_run(&mut self, spill: &mut Spill, cx: &Cx<'_>) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries).into_iter();
        self.stats.bytes_held += self.held_bytes as u64;
        self.held_bytes = 0;
        spill.write_run(&mut |key, value| {
            let Some(entry) = entries.next() else { return Ok(false) };
            cx.pass()?;
            key.extend_from_slice(entry.key());
            value.push(u8::from(entry.id.is_some()));
            value.extend_from_slice(&entry.id.map_or(0, |id| id.0).to_le_bytes());
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
    }

    fn next_from_disk(&mut self) -> Result<bool> {
        let Output::Disk { runs, left, doc, id } = &mut self.output else { return Ok(false) };
        if *left == 0 || !runs.advance(&|a, b| a.cmp(b))? {
            *left = 0;
            return Ok(false);
        }
        *left -= 1;
        let (_, value) = runs.entry()?;
        let (has_id, rest) = value.split_first().unwrap_or((&0, &[]));
        let (number, bytes) = rest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        *id = (*has_id == 1).then(|| RecordId(i64::from_le_bytes(*number)));
        doc.clear();
        doc.extend_from_slice(bytes);
        Ok(true)
    }
}

impl Source for Sort {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if let Output::Unread = self.output {
            self.fill(cx)?;
        }
        cx.pass()?;
        let Output::Memory(next) = &mut self.output else { return self.next_from_disk() };
        if *next >= self.entries.len() {
            return Ok(false);
        }
        if let Some(last) = next.checked_sub(1) {
            // What was returned is not needed again.
            self.entries[last].bytes = Box::default();
            self.entries[last].doc_start = 0;
        }
        *next += 1;
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        match &self.output {
            Output::Memory(next) if *next > 0 => document(self.entries[next - 1].carried()),
            Output::Disk { doc, .. } => document(doc),
            _ => Doc::EMPTY,
        }
    }

    fn meta(&self) -> Doc<'_> {
        match &self.output {
            Output::Memory(next) if *next > 0 => metadata(self.entries[next - 1].carried()),
            Output::Disk { doc, .. } => metadata(doc),
            _ => Doc::EMPTY,
        }
    }

    fn record_id(&self) -> Option<RecordId> {
        match &self.output {
            Output::Memory(next) if *next > 0 => self.entries[next - 1].id,
            Output::Disk { id, .. } => *id,
            _ => None,
        }
    }

    fn is_at_end(&self) -> bool {
        match &self.output {
            Output::Unread => false,
            Output::Memory(next) => *next >= self.entries.len(),
            Output::Disk { left, .. } => *left == 0,
        }
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn save(&mut self) {
        self.held.park();
        self.input.save();
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.held.resume();
        // Once sorted the input is not read again.
        if let Output::Unread = self.output { self.input.restore(cx) } else { Ok(()) }
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
