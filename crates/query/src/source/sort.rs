//! The blocking sort: reads all its input, then yields it in order.
//!
//! With a limit it keeps only the best so many (twice that at most, cut back when full), so a top-k
//! needs no memory for the rest. Ties keep the order of the input.

use std::{slice, sync::Arc};

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};
use nagi_lang::sort::SortSpec;
use nagi_store::RecordId;

use super::{Cx, Source, SourceStats};

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
    /// Position behind the current entry; none while the input is unread.
    next: Option<usize>,
    stats: SourceStats,
}

struct Entry {
    /// Key, then document.
    bytes: Box<[u8]>,
    doc_start: u32,
    order: u64,
    id: Option<RecordId>,
}

impl Entry {
    fn key(&self) -> &[u8] {
        &self.bytes[..self.doc_start as usize]
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.bytes[self.doc_start as usize..])
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
            next: None,
            stats: SourceStats::default(),
        }
    }

    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let keep = self.limits.count.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let cut_at = keep.map_or(usize::MAX, |n| n.saturating_mul(2).max(64));
        let mut scratch = Vec::new();
        let mut order = 0;
        while self.input.advance(cx)? {
            let doc = self.input.doc();
            scratch.clear();
            self.sort.key(doc, &mut scratch)?;
            let doc_start = scratch.len() as u32;
            scratch.extend_from_slice(doc.as_bytes());
            self.held_bytes += scratch.len() + ENTRY_BYTES;
            let id = self.input.record_id();
            self.entries.push(Entry { bytes: scratch.as_slice().into(), doc_start, order, id });
            order += 1;
            if self.entries.len() >= cut_at {
                self.cut(keep.unwrap_or(usize::MAX));
            }
            if self.held_bytes > self.limits.memory_bytes {
                self.over_memory(keep)?;
            }
        }
        self.stats.bytes_held = self.held_bytes as u64;
        self.order();
        if let Some(keep) = keep {
            self.entries.truncate(keep);
        }
        self.next = Some(0);
        Ok(())
    }

    fn over_memory(&mut self, keep: Option<usize>) -> Result<()> {
        if let Some(keep) = keep
            && self.entries.len() > keep
        {
            self.cut(keep);
            if self.held_bytes <= self.limits.memory_bytes {
                return Ok(());
            }
        }
        let hint = if self.limits.allow_disk_use {
            "and a sort on disk is not available for this operation."
        } else {
            "but did not opt in to external sorting. Aborting operation. \
             Pass allowDiskUse:true to opt in."
        };
        bail!(
            Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
            "Sort exceeded memory limit of {} bytes, {hint}",
            self.limits.memory_bytes
        );
    }

    fn order(&mut self) {
        let sort = &self.sort;
        self.entries.sort_unstable_by(|a, b| {
            sort.compare(a.key(), b.key()).then_with(|| a.order.cmp(&b.order))
        });
    }

    /// Keeps the best `keep` entries.
    fn cut(&mut self, keep: usize) {
        if keep == 0 || keep >= self.entries.len() {
            return;
        }
        let sort = &self.sort;
        self.entries.select_nth_unstable_by(keep - 1, |a, b| {
            sort.compare(a.key(), b.key()).then_with(|| a.order.cmp(&b.order))
        });
        let dropped: usize = self.entries[keep..].iter().map(|e| e.bytes.len() + ENTRY_BYTES).sum();
        self.held_bytes -= dropped;
        self.entries.truncate(keep);
    }

    fn current(&self) -> Option<&Entry> {
        self.entries.get(self.next?.checked_sub(1)?)
    }
}

impl Source for Sort {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.next.is_none() {
            self.fill(cx)?;
        }
        let next = self.next.unwrap_or(0);
        if next >= self.entries.len() {
            return Ok(false);
        }
        if let Some(last) = next.checked_sub(1) {
            // What was returned is not needed again.
            self.entries[last].bytes = Box::default();
            self.entries[last].doc_start = 0;
        }
        self.next = Some(next + 1);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.current().map_or(Doc::EMPTY, Entry::doc)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.current()?.id
    }

    fn is_at_end(&self) -> bool {
        self.next.is_some_and(|next| next >= self.entries.len())
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        // Once sorted the input is not read again.
        if self.next.is_some() { Ok(()) } else { self.input.restore(cx) }
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
