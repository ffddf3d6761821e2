//! The pipelines of a `$facet`, fed with portions of the input.

use std::{mem, sync::Arc};

use nagi_bson::Doc;
use nagi_error::{Code, Error, Result, bail};

use crate::{
    limits::DOC_BYTES_MAX,
    source::{Absorbed, Absorber, Cx, Gather, Portion, PortionReader, PortionSlot, Source},
    stages::Pipeline,
};

/// A pipeline, and what it has yielded.
pub(super) struct Branch {
    consumer: Consumer,
    slot: PortionSlot,
    takes: Absorbed,
    /// The documents that it has yielded, one after the other.
    yielded: Vec<u8>,
}

enum Consumer {
    Pipeline(Box<dyn Source>),
    /// Gathers for a pipeline in another thread.
    Beside(Box<dyn Absorber>),
}

impl Branch {
    pub(super) fn open(pipeline: &Pipeline, cx: &mut Cx<'_>) -> Result<Branch> {
        let slot = PortionSlot::default();
        let mut source = pipeline.open(0, Box::new(PortionReader::new(slot.clone())));
        // There are no documents yet, so this tells only what it will do with them.
        let takes = source.absorb(cx)?;
        Ok(Branch { consumer: Consumer::Pipeline(source), slot, takes, yielded: Vec::new() })
    }

    /// Gives it a portion. `others`: the bytes that the other branches have yielded.
    fn feed(&mut self, portion: &Arc<Portion>, others: usize, cx: &mut Cx<'_>) -> Result<()> {
        self.slot.put(Some(portion.clone()));
        match (&mut self.consumer, self.takes) {
            (Consumer::Beside(gatherer), _) => gatherer.absorb(cx)?,
            (Consumer::Pipeline(_), Absorbed::Unable) => {}
            (Consumer::Pipeline(source), Absorbed::Keeps) => drop(source.absorb(cx)?),
            (Consumer::Pipeline(source), Absorbed::Yields) => {
                while source.advance(cx)? {
                    let doc = source.doc();
                    cx.writing(others + self.yielded.len() + doc.len())?;
                    self.yielded.extend_from_slice(doc.as_bytes());
                    check_output(others + self.yielded.len())?;
                }
            }
        }
        self.slot.put(None);
        Ok(())
    }

    /// A branch for later portions. None unless the pipeline keeps what it gets, and can be shared.
    fn beside(&mut self, cx: &mut Cx<'_>) -> Result<Option<Branch>> {
        let (Consumer::Pipeline(source), Absorbed::Keeps) = (&mut self.consumer, self.takes) else {
            return Ok(None);
        };
        let Some(gatherer) = source.beside(cx)? else { return Ok(None) };
        let slot = self.slot.take_later().ok_or_else(|| Error::bug("no reader was split"))?;
        let (consumer, takes) = (Consumer::Beside(gatherer), self.takes);
        Ok(Some(Branch { consumer, slot, takes, yielded: Vec::new() }))
    }

    fn join(&mut self, later: Branch, cx: &mut Cx<'_>) -> Result<()> {
        match (&mut self.consumer, later.consumer) {
            (Consumer::Pipeline(source), Consumer::Beside(later)) => source.join(later, cx),
            _ => Err(Error::bug("only a pipeline is joined with what was gathered beside it")),
        }
    }

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        match &mut self.consumer {
            Consumer::Pipeline(source) => source.complete(cx),
            Consumer::Beside(gatherer) => gatherer.complete(cx),
        }
    }

    fn alone(&mut self) {
        if let Consumer::Pipeline(source) = &mut self.consumer {
            source.alone();
        }
    }

    /// The documents that it has yielded so far, and the source of the others; no source if it could not be fed.
    pub(super) fn finish(self) -> (Vec<u8>, Option<Box<dyn Source>>) {
        self.slot.end();
        let source = match self.consumer {
            Consumer::Pipeline(source) if self.takes != Absorbed::Unable => Some(source),
            _ => None,
        };
        (self.yielded, source)
    }
}

/// The branches, which get the input in portions while it is read.
pub(super) struct Feed {
    pub(super) branches: Vec<Branch>,
    /// Documents that the branches have not got yet.
    next: Portion,
}

impl Feed {
    pub(super) fn new(branches: Vec<Branch>) -> Feed {
        Feed { branches, next: Portion::default() }
    }

    /// True if a branch must read the input after the others.
    pub(super) fn must_be_kept(&self) -> bool {
        self.branches.iter().any(|branch| branch.takes == Absorbed::Unable)
    }

    /// Moves `input` to its next document and takes it. Hands everything out at the end.
    pub(super) fn advance(&mut self, input: &mut dyn Source, cx: &mut Cx<'_>) -> Result<bool> {
        let more = input.advance(cx)?;
        if self.branches.iter().all(|branch| branch.takes == Absorbed::Unable) {
            return Ok(more);
        }
        match more {
            true => self.take(input, cx)?,
            false => self.hand_out(cx)?,
        }
        Ok(more)
    }

    /// Gives the branches what they have not got yet.
    pub(super) fn hand_out(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        // A branch that stopped in the middle of a portion would lose the rest of it.
        let env = cx.env;
        env.without_budget(|| self.feed_all(cx))
    }

    fn feed_all(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let portion = Arc::new(mem::take(&mut self.next));
        let mut yielded: usize = self.branches.iter().map(|branch| branch.yielded.len()).sum();
        for branch in &mut self.branches {
            let others = yielded - branch.yielded.len();
            branch.feed(&portion, others, cx)?;
            yielded = others + branch.yielded.len();
        }
        // A branch that needs no more documents may still hold the portion.
        self.next = Arc::into_inner(portion).unwrap_or_default();
        self.next.clear();
        Ok(())
    }
}

impl Gather for Feed {
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()> {
        match self.next.add(input) {
            true => self.hand_out(cx),
            false => Ok(()),
        }
    }

    fn beside(&mut self, cx: &mut Cx<'_>) -> Result<Option<Feed>> {
        let mut later = Vec::new();
        for branch in &mut self.branches {
            match branch.beside(cx)? {
                Some(beside) => later.push(beside),
                None => break,
            }
        }
        if later.len() < self.branches.len() {
            self.alone();
            return Ok(None);
        }
        Ok(Some(Feed::new(later)))
    }

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.hand_out(cx)?;
        self.branches.iter_mut().try_for_each(|branch| branch.complete(cx))
    }

    fn join(&mut self, mut later: Feed, cx: &mut Cx<'_>) -> Result<()> {
        self.hand_out(cx)?;
        // A gatherer of later documents may refuse some, which only the worker may meet (decimals in a `$sum`).
        let rest = mem::take(&mut later.next);
        let mut pairs = self.branches.iter_mut().zip(later.branches);
        pairs.try_for_each(|(own, later)| own.join(later, cx))?;
        self.next = rest;
        self.hand_out(cx)
    }

    fn alone(&mut self) {
        self.branches.iter_mut().for_each(Branch::alone);
    }
}

/// Splits off the first of several documents.
pub(super) fn split(docs: &[u8]) -> Option<(Doc<'_>, &[u8])> {
    let length = docs.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize)?;
    let (doc, rest) = docs.split_at_checked(length)?;
    Some((Doc::trusted(doc), rest))
}

/// # Errors
/// 10334 for a result that is far too large.
pub(super) fn check_output(bytes: usize) -> Result<()> {
    if bytes > 2 * DOC_BYTES_MAX {
        bail!(
            Code::BSON_OBJECT_TOO_LARGE,
            "document constructed by $facet is larger than {DOC_BYTES_MAX} bytes"
        );
    }
    Ok(())
}
