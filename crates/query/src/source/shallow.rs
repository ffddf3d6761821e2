//! Limits the nesting depth of documents that stages build.
//!
//! Each stage may nest its input some levels deeper. A long pipeline could build documents so deep that comparing
//! or copying them overflows the stack.

use nagi_bson::{DEPTH_MAX, Doc};
use nagi_error::{Code, Result, err};
use nagi_store::RecordKey;

use super::{Absorbed, Cx, Source};

/// Passes on its input, but fails for a document nested deeper than one on the wire may be.
pub(crate) struct Shallow {
    input: Box<dyn Source>,
}

impl Shallow {
    fn over(&self, input: Box<dyn Source>) -> Shallow {
        Shallow { input }
    }

    pub(crate) fn boxed(input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Shallow { input })
    }
}

impl Source for Shallow {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        if self.input.doc().is_deeper_than(DEPTH_MAX) {
            return Err(err!(
                Code::OVERFLOW,
                "cannot convert document to BSON because it exceeds the limit of {DEPTH_MAX} \
                 levels of nesting"
            ));
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    forks_with_input!();

    over_input!();
}
