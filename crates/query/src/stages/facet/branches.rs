//! The pipelines of a `$facet`, fed with portions of the input.

use std::{mem, sync::Arc};

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};

use crate::{
    limits::DOC_BYTES_MAX,
    source::{Absorbed, Cx, Portion, PortionReader, PortionSlot, Source, carry},
    stages::Pipeline,
};

/// A pipeline, and what it has yielded.
pub(super) struct Branch {
    source: Box<dyn Source>,
    slot: PortionSlot,
    takes: Absorbed,
    /// The documents that it has yielded, one after the other.
    yielded: Vec<u8>,
}

impl Branch {
    pub(super) fn open(pipeline: &Pipeline, cx: &mut Cx<'_>) -> Result<Branch> {
        let slot = PortionSlot::default();
        let mut source = pipeline.open(0, Box::new(PortionReader::new(slot.clone())));
        // There are no documents yet, so this tells only what it will do with them.
        let takes = source.absorb(cx)?;
        Ok(Branch { source, slot, takes, yielded: Vec::new() })
    }

    /// Gives it a portion. `others`: the bytes that the other branches have yielded.
    fn feed(&mut self, portion: &Arc<Portion>, others: usize, cx: &mut Cx<'_>) -> Result<()> {
        self.slot.put(Some(portion.clone()));
        match self.takes {
            Absorbed::Unable => {}
            Absorbed::Keeps => drop(self.source.absorb(cx)?),
            Absorbed::Yields => {
                while self.source.advance(cx)? {
                    let doc = self.source.doc();
                    cx.writing(others + self.yielded.len() + doc.len())?;
                    self.yielded.extend_from_slice(doc.as_bytes());
                    check_output(others + self.yielded.len())?;
                }
            }
        }
        self.slot.put(None);
        Ok(())
    }

    /// The documents that it has yielded so far, and the source of the others; no source if it could not be fed.
    pub(super) fn finish(self) -> (Vec<u8>, Option<Box<dyn Source>>) {
        let fed = self.takes != Absorbed::Unable;
        (self.yielded, fed.then_some(self.source))
    }
}

/// The input, which the branches get in portions while it is read.
pub(super) struct Feed<'f> {
    input: &'f mut dyn Source,
    branches: &'f mut [Branch],
    /// Documents that the branches have not got yet.
    next: Portion,
    feeds: bool,
}

impl<'f> Feed<'f> {
    pub(super) fn new(input: &'f mut dyn Source, branches: &'f mut [Branch]) -> Feed<'f> {
        let feeds = branches.iter().any(|branch| branch.takes != Absorbed::Unable);
        Feed { input, branches, next: Portion::default(), feeds }
    }

    /// True if a branch must read the input after the others.
    pub(super) fn must_be_kept(&self) -> bool {
        self.branches.iter().any(|branch| branch.takes == Absorbed::Unable)
    }

    /// Moves to the next document of the input.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        let more = self.input.advance(cx)?;
        if self.feeds && (!more || self.next.add(self.input)) {
            self.hand_out(cx)?;
        }
        Ok(more)
    }

    /// Appends the current document with its metadata.
    pub(super) fn carry(&self, out: &mut Vec<u8>) {
        carry(self.input, out);
    }

    fn hand_out(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let portion = Arc::new(mem::take(&mut self.next));
        let mut yielded: usize = self.branches.iter().map(|branch| branch.yielded.len()).sum();
        for branch in self.branches.iter_mut() {
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
