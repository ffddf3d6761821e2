//! Text searches: the union of the terms' scans with scores, and the checks that need the documents.

use std::{
    collections::{HashMap, VecDeque},
    slice,
    sync::Arc,
};

use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter, number};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::{MetaSet, Metadata},
    filter::Filter,
};
use nagi_store::{RecordId, RecordKey, Spill, keystring};

use super::{Ahead, Cx, OperatorMemory, Place, Source, SourceStats, Taken, renew, runs::Runs};
use crate::access::TextAccess;

/// Approximate memory of a record with its score in the map.
const ENTRY_BYTES: usize = 40;
/// Marks, after the score, an entry whose record id is a key.
const IS_KEY: u8 = 1;
/// Entries between two checks of memory.
const ENTRIES_PER_LOOK: usize = 1024;

/// Yields the documents that contain any of the terms, each with the sum of its scores, by record.
pub(crate) struct TextOr {
    inputs: Vec<Box<dyn Source>>,
    access: Arc<TextAccess>,
    filter: Option<Arc<Filter>>,
    memory_bytes_max: usize,
    spills: bool,
    held: OperatorMemory,
    found: Found,
    /// Taken from `found`; their records are in `ahead`, unless the snapshot has changed.
    waiting: VecDeque<(RecordId, f64)>,
    ahead: Ahead,
    ids: Vec<RecordId>,
    id: Option<RecordId>,
    at: Place,
    meta: Vec<u8>,
    arena: Bump,
    stats: SourceStats,
}

/// The result of the scans.
enum Found {
    Unread,
    Memory(std::vec::IntoIter<(RecordId, f64)>),
    /// Runs sorted by record; the next record, whose scores are not all read yet.
    Disk(Runs, Option<(RecordId, f64)>),
}

type Sums = HashMap<RecordId, f64, foldhash::fast::RandomState>;

impl TextOr {
    pub(crate) fn new(
        inputs: Vec<Box<dyn Source>>,
        access: Arc<TextAccess>,
        filter: Option<Arc<Filter>>,
        (memory_bytes_max, spills): (usize, bool),
    ) -> TextOr {
        TextOr {
            inputs,
            access,
            filter,
            memory_bytes_max,
            spills,
            held: OperatorMemory::default(),
            found: Found::Unread,
            waiting: VecDeque::new(),
            ahead: Ahead::new(None, 0),
            ids: Vec::new(),
            id: None,
            at: Place::default(),
            meta: Vec::new(),
            arena: Bump::new(),
            stats: SourceStats::default(),
        }
    }

    /// Reads all scans.
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let mut sums = Sums::default();
        let mut spill: Option<Spill> = None;
        let mut scratch = Vec::new();
        for at in 0..self.inputs.len() {
            while self.inputs[at].advance(cx)? {
                let input = &self.inputs[at];
                let (Some(id), Some(key)) = (input.record_id(), input.key()) else {
                    continue;
                };
                *sums.entry(id.to_id()).or_default() += self.score(key, &mut scratch)?;
                if sums.len().is_multiple_of(ENTRIES_PER_LOOK) {
                    self.look(&mut sums, &mut spill, cx)?;
                }
            }
        }
        self.note(&sums);
        self.found = match spill {
            None => {
                let mut all: Vec<(RecordId, f64)> = sums.into_iter().collect();
                all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                Found::Memory(all.into_iter())
            }
            Some(mut spill) => {
                write_run(&mut sums, &mut spill)?;
                self.held.keep(0);
                self.stats.note_spill(&spill);
                let mut runs = Runs::open(spill, &|a, b| a.cmp(b), cx)?;
                let first = next_entry(&mut runs)?;
                Found::Disk(runs, first)
            }
        };
        Ok(())
    }

    fn note(&mut self, sums: &Sums) {
        let bytes = (sums.len() * ENTRY_BYTES) as u64;
        self.stats.bytes_held = self.stats.bytes_held.max(bytes);
    }

    /// Spills the sums to disk if they exceed the memory.
    fn look(&mut self, sums: &mut Sums, spill: &mut Option<Spill>, cx: &Cx<'_>) -> Result<()> {
        let bytes = sums.len() * ENTRY_BYTES;
        if bytes <= self.memory_bytes_max && self.held.fits(cx, bytes) {
            return Ok(());
        }
        if !self.spills {
            if bytes <= self.memory_bytes_max {
                return Err(self.held.full());
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for TEXT_OR, but didn't allow external spilling; pass \
                 allowDiskUse:true to opt in."
            );
        }
        self.note(sums);
        write_run(sums, spill.get_or_insert_with(|| cx.store.spill()))?;
        self.held.keep(0);
        Ok(())
    }

    /// The score in an index key.
    fn score(&self, (key, type_bits): (&[u8], &[u8]), scratch: &mut Vec<u8>) -> Result<f64> {
        scratch.clear();
        let mut out = DocWriter::new(scratch);
        let parts = self.access.index.spec.key.iter().map(|part| ("", part.descending));
        keystring::decode(key, type_bits, parts, &mut out)?;
        out.finish();
        let score = Doc::trusted(scratch).iter().nth(self.access.term + 1);
        let score = score.and_then(|field| number::as_f64(field.value()));
        Ok(score.unwrap_or(0.0))
    }

    fn next(&mut self) -> Result<Option<(RecordId, f64)>> {
        match &mut self.found {
            Found::Unread => Ok(None),
            Found::Memory(all) => Ok(all.next()),
            Found::Disk(runs, pending) => {
                let Some((id, mut sum)) = pending.take() else { return Ok(None) };
                while let Some((other, score)) = next_entry(runs)? {
                    if other != id {
                        *pending = Some((other, score));
                        break;
                    }
                    sum += score;
                }
                Ok(Some((id, sum)))
            }
        }
    }

    /// Takes the next records and reads them ahead.
    fn look_ahead(&mut self, cx: &Cx<'_>) -> Result<()> {
        let step = self.ahead.step(cx);
        while self.waiting.len() < step {
            let Some(entry) = self.next()? else { break };
            cx.env.pass()?;
            self.waiting.push_back(entry);
        }
        if self.waiting.len() < 2 {
            return Ok(());
        }
        self.ids.clear();
        self.ids.extend(self.waiting.iter().take(step).map(|(id, _)| id.clone()));
        self.ahead.read(&self.access.collection, &self.ids, cx)
    }

    /// Gets a record. Returns false if it does not exist or does not match.
    fn read(&mut self, id: RecordKey<'_>, cx: &Cx<'_>) -> Result<bool> {
        let Taken::At(place) = self.ahead.take(&self.access.collection, id, cx)? else {
            return Ok(false);
        };
        self.stats.docs_examined += 1;
        cx.examined_doc();
        self.at = place;
        if let Some(filter) = &self.filter {
            let doc = self.ahead.doc(&self.at);
            let matched = filter.matches(doc, &cx.matching(&self.arena))?;
            renew(&mut self.arena);
            return Ok(matched);
        }
        Ok(true)
    }
}

/// Writes the sums as a run sorted by record, and clears them.
fn write_run(sums: &mut Sums, spill: &mut Spill) -> Result<()> {
    let mut all: Vec<(RecordId, f64)> = sums.drain().collect();
    all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut all = all.into_iter();
    spill.write_run(&mut |key, value| {
        let Some((id, score)) = all.next() else { return Ok(false) };
        value.extend_from_slice(&score.to_le_bytes());
        match id {
            // The sign is flipped, so that the bytes have the order of the numbers.
            RecordId::Id(number) => key.extend_from_slice(&(number ^ i64::MIN).to_be_bytes()),
            RecordId::Key(bytes) => {
                key.extend_from_slice(&bytes);
                value.push(IS_KEY);
            }
        }
        Ok(true)
    })
}

fn next_entry(runs: &mut Runs) -> Result<Option<(RecordId, f64)>> {
    if !runs.advance(&|a, b| a.cmp(b))? {
        return Ok(None);
    }
    let (key, value) = runs.entry()?;
    let number = || key.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes) ^ i64::MIN);
    let id = match value.get(8) {
        Some(_) => RecordId::Key(key.into()),
        None => RecordId::Id(number()),
    };
    let score = value.first_chunk::<8>().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
    Ok(Some((id, score)))
}

impl Source for TextOr {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if let Found::Unread = self.found {
            self.fill(cx)?;
        }
        loop {
            if self.ahead.is_empty() {
                self.look_ahead(cx)?;
            }
            let Some((id, score)) = self.waiting.pop_front() else { return Ok(false) };
            cx.tick()?;
            if !self.read(id.key(), cx)? {
                continue;
            }
            self.id = Some(id);
            self.meta.clear();
            let mut out = DocWriter::new(&mut self.meta);
            let meta = Metadata { text_score: Some(score), ..Metadata::default() };
            meta.write(MetaSet::TEXT, &mut out);
            out.finish();
            return Ok(true);
        }
    }

    fn doc(&self) -> Doc<'_> {
        self.ahead.doc(&self.at)
    }

    fn meta(&self) -> Doc<'_> {
        Doc::trusted(&self.meta)
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.id.as_ref().map(RecordId::key)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn save(&mut self) {
        self.held.park();
        self.ahead.forget_state();
        self.at = Place::default();
        self.inputs.iter_mut().for_each(|input| input.save());
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.held.resume();
        // Once the scans were read, they are not read again.
        match self.found {
            Found::Unread => self.inputs.iter_mut().try_for_each(|input| input.restore(cx)),
            _ => Ok(()),
        }
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// Passes on the documents that match the whole search, from those that contain some of its terms.
pub(crate) struct TextMatch {
    input: Box<dyn Source>,
    access: Arc<TextAccess>,
    verify: bool,
    /// True if the snapshot differs from the one in which the terms were found.
    stale: bool,
}

impl TextMatch {
    pub(crate) fn new(input: Box<dyn Source>, access: Arc<TextAccess>) -> TextMatch {
        let verify = access.text.bound().is_some_and(|bound| bound.needs_verifying());
        TextMatch { input, access, verify, stale: false }
    }
}

impl Source for TextMatch {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            if !self.verify && !self.stale {
                return Ok(true);
            }
            cx.tick()?;
            let Some(bound) = self.access.text.bound() else { return Ok(false) };
            let doc = self.input.doc();
            let matched = if self.stale { bound.matches(doc)? } else { bound.verify(doc)? };
            if matched {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn meta(&self) -> Doc<'_> {
        self.input.meta()
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.input.record_id()
    }

    fn is_at_end(&self) -> bool {
        self.input.is_at_end()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.stale = true;
        self.input.restore(cx)
    }
}
