//! The input of stages that write, under explain.

use nagi_error::Result;

use super::{Cx, Source};

/// Reads the documents that would be written, and returns none.
pub(crate) struct Unwritten {
    input: Box<dyn Source>,
}

impl Unwritten {
    pub(crate) fn new(input: Box<dyn Source>) -> Unwritten {
        Unwritten { input }
    }
}

impl Source for Unwritten {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {}
        Ok(false)
    }

    fn doc(&self) -> nagi_bson::Doc<'_> {
        nagi_bson::Doc::EMPTY
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        std::slice::from_mut(&mut self.input)
    }
}
