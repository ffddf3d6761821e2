//! Skip and limit: they count documents without examining them.

use std::slice;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey};

use super::{Absorbed, Cx, Source};

/// Passes on the first `left` documents.
pub(crate) struct Limit {
    input: Box<dyn Source>,
    left: u64,
}

impl Limit {
    pub(crate) fn new(input: Box<dyn Source>, count: u64) -> Limit {
        Limit { input, left: count }
    }
}

impl Source for Limit {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let more = self.input.advance(cx)?;
        // At the end of a capped collection more documents may follow, so the limit is not reduced.
        self.left -= u64::from(more);
        Ok(more)
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.input.record_id()
    }

    fn key(&self) -> Option<(&[u8], &[u8])> {
        self.input.key()
    }

    fn meta(&self) -> Doc<'_> {
        self.input.meta()
    }

    fn is_at_end(&self) -> bool {
        self.left == 0 || self.input.is_at_end()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

/// Passes on the documents after the first `left`.
pub(crate) struct Skip {
    input: Box<dyn Source>,
    left: u64,
}

impl Skip {
    pub(crate) fn new(input: Box<dyn Source>, count: u64) -> Skip {
        Skip { input, left: count }
    }

    /// Skips the documents. Returns false if none follows.
    fn pass(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.left > 0 {
            if !self.input.advance(cx)? {
                return Ok(false);
            }
            self.left -= 1;
        }
        Ok(true)
    }
}

impl Source for Skip {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        Ok(self.pass(cx)? && self.input.advance(cx)?)
    }

    fn ahead(&mut self, cx: &mut Cx<'_>, count: usize, out: &mut Vec<RecordId>) -> Result<()> {
        match self.pass(cx)? {
            true => self.input.ahead(cx, count, out),
            false => Ok(()),
        }
    }

    fn key(&self) -> Option<(&[u8], &[u8])> {
        self.input.key()
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    over_input!();
}
