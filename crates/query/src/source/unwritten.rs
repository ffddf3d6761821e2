//! What stages that write read, under explain.

use nagi_error::Result;

use super::{Cx, Source};

/// Reads what would be written, and returns nothing.
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
