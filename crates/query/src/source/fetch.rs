//! Sources over record ids: fetch, the union of an `$or`, and the merge of sorted inputs.

use std::{cmp::Ordering, slice, sync::Arc};

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::{filter::Filter, sort::SortSpec};
use nagi_store::{Collection, RecordId, RecordKey};

use super::{Ahead, Cx, Place, Seen, Source, SourceStats, Taken, renew};

/// Reads the record of each entry and passes on the documents that match.
pub(crate) struct Fetch {
    input: Box<dyn Source>,
    collection: Arc<Collection>,
    filter: Option<Arc<Filter>>,
    /// The complete filter, for use when the keys below no longer decide any part of it.
    whole: Option<Arc<Filter>>,
    id: Option<RecordId>,
    ahead: Ahead,
    at: At,
    lent: Vec<u8>,
    /// True if the input's entries are the records, which it lends; then nothing else is read.
    of_records: bool,
    ids: Vec<RecordId>,
    arena: Bump,
    stats: SourceStats,
}

/// The location of the current document.
enum At {
    Ahead(Place),
    /// A copy of the input's document, in `lent`.
    Lent,
    /// The input lends it.
    Input,
}

impl Fetch {
    /// `filter` is tested on each document; `whole` replaces it once [`Source::doubt_keys`] finds that keys
    /// changed. `wanted` is the largest number of documents that will be requested, if it is known. `beside` is the
    /// number of other fetches that are read alternately with this one.
    pub(crate) fn new(
        input: Box<dyn Source>,
        collection: Arc<Collection>,
        [filter, whole]: [Option<Arc<Filter>>; 2],
        (wanted, beside): (Option<u64>, usize),
    ) -> Fetch {
        // With a filter, more records than documents are needed.
        let ahead = Ahead::new(wanted.filter(|_| filter.is_none()), beside);
        Fetch {
            ahead: ahead.of_mean(collection.mean_bytes()),
            input,
            collection,
            filter,
            whole,
            id: None,
            at: At::Lent,
            lent: Vec::new(),
            of_records: false,
            ids: Vec::new(),
            arena: Bump::new(),
            stats: SourceStats::default(),
        }
    }

    /// Sets that the input lends the records.
    pub(crate) fn of_records(mut self, of_records: bool) -> Fetch {
        self.of_records = of_records;
        self
    }

    /// The same over a part of the input that has not begun, for a reader of all of it.
    fn over(&self, input: Box<dyn Source>) -> Fetch {
        let filters = [self.filter.clone(), self.whole.clone()];
        let fetch = Fetch::new(input, Arc::clone(&self.collection), filters, (None, 0));
        fetch.of_records(self.of_records)
    }

    /// Reads the next records ahead, if that pays and the input knows them.
    fn look_ahead(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let step = self.ahead.step(cx);
        if step < 2 {
            return Ok(());
        }
        self.ids.clear();
        self.input.ahead(cx, step, &mut self.ids)?;
        match self.ids.len() {
            0 | 1 => Ok(()),
            _ => self.ahead.read(&self.collection, &self.ids, cx),
        }
    }

    /// Gets the record of an entry. Returns false if it does not exist any more.
    fn read(&mut self, id: RecordKey<'_>, cx: &Cx<'_>) -> Result<bool> {
        // An input that has the document already (below a union of fetches) need not be read again.
        let lent = self.input.doc();
        if !lent.is_empty() {
            self.at = At::Lent;
            self.lent.clear();
            self.lent.extend_from_slice(lent.as_bytes());
            return Ok(true);
        }
        let Taken::At(place) = self.ahead.take(&self.collection, id, cx)? else {
            return Ok(false);
        };
        self.stats.docs_examined += 1;
        cx.examined_doc();
        self.at = At::Ahead(place);
        Ok(true)
    }
}

impl Source for Fetch {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        loop {
            if !self.of_records && self.ahead.is_empty() {
                self.look_ahead(cx)?;
            }
            if !self.input.advance(cx)? {
                return Ok(false);
            }
            cx.tick()?;
            if self.of_records {
                self.at = At::Input;
                self.stats.docs_examined += 1;
                cx.examined_doc();
            } else {
                let Some(id) = self.input.record_id().map(RecordKey::to_id) else { continue };
                if !self.read(id.key(), cx)? {
                    continue;
                }
                self.id = Some(id);
            }
            cx.weigh(self.doc().as_bytes())?;
            if let Some(filter) = &self.filter {
                let matched = filter.matches(self.doc(), &cx.matching(&self.arena))?;
                renew(&mut self.arena);
                if !matched {
                    continue;
                }
            }
            return Ok(true);
        }
    }

    fn doc(&self) -> Doc<'_> {
        match &self.at {
            At::Ahead(place) => self.ahead.doc(place),
            At::Lent => Doc::trusted(&self.lent),
            At::Input => self.input.doc(),
        }
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        match self.of_records {
            true => self.input.record_id(),
            false => self.id.as_ref().map(RecordId::key),
        }
    }

    fn key(&self) -> Option<(&[u8], &[u8])> {
        self.input.key()
    }

    fn is_at_end(&self) -> bool {
        self.input.is_at_end()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn split(&mut self, cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        // What was read ahead is read again.
        self.save();
        let later = self.input.split(cx)?;
        Ok(later.map(|later| Box::new(self.over(later)) as Box<dyn Source>))
    }

    fn splits_late(&self) -> bool {
        self.input.splits_late()
    }

    fn afresh(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.over(self.input.afresh()?)))
    }

    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        let changed = self.input.doubt_keys(noted, checked || self.whole.is_some())?;
        if changed && self.whole.is_some() {
            self.filter = self.whole.clone();
        }
        Ok(changed)
    }

    fn save(&mut self) {
        self.ahead.forget_state();
        self.at = At::Lent;
        self.lent = Vec::new();
        self.input.save();
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// Yields one input after the other, each record once.
pub(crate) struct Union {
    inputs: Vec<Box<dyn Source>>,
    at: usize,
    seen: Seen,
    stats: SourceStats,
}

impl Union {
    pub(crate) fn new(inputs: Vec<Box<dyn Source>>) -> Union {
        Union { inputs, at: 0, seen: Seen::default(), stats: SourceStats::default() }
    }
}

impl Source for Union {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while let Some(input) = self.inputs.get_mut(self.at) {
            while input.advance(cx)? {
                match input.record_id() {
                    Some(id) if !self.seen.insert(id) => self.stats.dups_dropped += 1,
                    _ => return Ok(true),
                }
            }
            self.at += 1;
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.inputs.get(self.at).map_or(Doc::EMPTY, |input| input.doc())
    }

    fn meta(&self) -> Doc<'_> {
        self.inputs.get(self.at).map_or(Doc::EMPTY, |input| input.meta())
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.inputs.get(self.at)?.record_id()
    }

    fn ahead(&mut self, cx: &mut Cx<'_>, count: usize, out: &mut Vec<RecordId>) -> Result<()> {
        if let Some(input) = self.inputs.get_mut(self.at) {
            let begin = out.len();
            input.ahead(cx, count, out)?;
            let mut fresh = out.split_off(begin);
            fresh.retain(|id| !self.seen.contains(id.key()));
            out.append(&mut fresh);
        }
        Ok(())
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// Merges sorted inputs into one sorted sequence, each record once.
pub(crate) struct SortMerge {
    inputs: Vec<Box<dyn Source>>,
    sort: Arc<SortSpec>,
    /// The current document of each input and its key; none if the input is exhausted.
    heads: Vec<Option<Head>>,
    started: bool,
    /// The input whose document was returned last.
    current: usize,
    seen: Seen,
    stats: SourceStats,
}

struct Head {
    key: Vec<u8>,
    doc: Vec<u8>,
    id: Option<RecordId>,
}

impl SortMerge {
    pub(crate) fn new(inputs: Vec<Box<dyn Source>>, sort: Arc<SortSpec>) -> SortMerge {
        SortMerge {
            heads: inputs.iter().map(|_| None).collect(),
            inputs,
            sort,
            started: false,
            current: 0,
            seen: Seen::default(),
            stats: SourceStats::default(),
        }
    }

    fn pull(&mut self, at: usize, cx: &mut Cx<'_>) -> Result<()> {
        let mut head = self.heads[at].take();
        let input = &mut self.inputs[at];
        if !input.advance(cx)? {
            return Ok(());
        }
        let mut next = head.take().unwrap_or(Head { key: Vec::new(), doc: Vec::new(), id: None });
        next.key.clear();
        next.doc.clear();
        self.sort.key(input.doc(), &mut next.key)?;
        next.doc.extend_from_slice(input.doc().as_bytes());
        next.id = input.record_id().map(RecordKey::to_id);
        self.heads[at] = Some(next);
        Ok(())
    }

    fn least(&self) -> Option<usize> {
        let mut best: Option<(usize, &Head)> = None;
        for (at, head) in self.heads.iter().enumerate() {
            let Some(head) = head else { continue };
            let better = best.is_none_or(|(_, other)| {
                self.sort.compare(&head.key, &other.key) == Ordering::Less
            });
            if better {
                best = Some((at, head));
            }
        }
        best.map(|(at, _)| at)
    }
}

impl Source for SortMerge {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.started {
            self.started = true;
            for at in 0..self.inputs.len() {
                self.pull(at, cx)?;
            }
        } else {
            self.pull(self.current, cx)?;
        }
        while let Some(at) = self.least() {
            self.current = at;
            let id = self.heads[at].as_ref().and_then(|head| head.id.as_ref()).map(RecordId::key);
            match id {
                Some(id) if !self.seen.insert(id) => {
                    self.stats.dups_dropped += 1;
                    self.pull(at, cx)?;
                }
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        match self.heads.get(self.current) {
            Some(Some(head)) => Doc::trusted(&head.doc),
            _ => Doc::EMPTY,
        }
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.heads.get(self.current)?.as_ref()?.id.as_ref().map(RecordId::key)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
