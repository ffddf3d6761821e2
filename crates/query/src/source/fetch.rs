//! Sources over record ids: fetch, the union of an `$or`, the merge of sorted inputs.

use std::{cmp::Ordering, collections::HashSet, slice, sync::Arc};

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::{filter::Filter, sort::SortSpec};
use nagi_store::{Collection, RecordBuf, RecordId};

use super::{Cx, Source, SourceStats};

/// A set of records already returned.
pub(crate) type Seen = HashSet<RecordId, foldhash::fast::RandomState>;

/// Reads the record of each entry and passes on those that match.
pub(crate) struct Fetch {
    input: Box<dyn Source>,
    collection: Arc<Collection>,
    filter: Option<Arc<Filter>>,
    id: Option<RecordId>,
    doc: Vec<u8>,
    buf: RecordBuf,
    arena: Bump,
    stats: SourceStats,
}

impl Fetch {
    pub(crate) fn new(
        input: Box<dyn Source>,
        collection: Arc<Collection>,
        filter: Option<Arc<Filter>>,
    ) -> Fetch {
        Fetch {
            input,
            collection,
            filter,
            id: None,
            doc: Vec::new(),
            buf: RecordBuf::default(),
            arena: Bump::new(),
            stats: SourceStats::default(),
        }
    }

    /// Reads the record into `doc`; false if it is gone.
    fn read(&mut self, id: RecordId, cx: &Cx<'_>) -> Result<bool> {
        // An input that has the document already (below a union of fetches) need not be read again.
        let lent = self.input.doc();
        if !lent.is_empty() {
            self.doc.clear();
            self.doc.extend_from_slice(lent.as_bytes());
            return Ok(true);
        }
        let Some(doc) = cx.reader.record(&self.collection, id, &mut self.buf)? else {
            return Ok(false);
        };
        self.stats.docs_examined += 1;
        self.doc.clear();
        self.doc.extend_from_slice(doc.as_bytes());
        Ok(true)
    }
}

impl Source for Fetch {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            let Some(id) = self.input.record_id() else { continue };
            cx.tick()?;
            if !self.read(id, cx)? {
                continue;
            }
            if let Some(filter) = &self.filter {
                let matched = filter.matches(Doc::trusted(&self.doc), &cx.matching(&self.arena))?;
                self.arena.reset();
                if !matched {
                    continue;
                }
            }
            self.id = Some(id);
            return Ok(true);
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.id
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

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// One input after the other, each record once.
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

    fn record_id(&self) -> Option<RecordId> {
        self.inputs.get(self.at)?.record_id()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

/// Sorted inputs as one sorted sequence, each record once.
pub(crate) struct SortMerge {
    inputs: Vec<Box<dyn Source>>,
    sort: Arc<SortSpec>,
    /// The current document and its key of each input; none at its end.
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
        next.id = input.record_id();
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
            let id = self.heads[at].as_ref().and_then(|head| head.id);
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

    fn record_id(&self) -> Option<RecordId> {
        self.heads.get(self.current)?.as_ref()?.id
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
