//! Passes on the matching documents: `$match` stages that are not part of a plan.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::filter::Filter;
use nagi_store::RecordKey;

use super::{Absorbed, Cx, Source, renew};

pub(crate) struct Filtered {
    input: Box<dyn Source>,
    filter: Arc<Filter>,
    arena: Bump,
}

impl Filtered {
    pub(crate) fn new(input: Box<dyn Source>, filter: Arc<Filter>) -> Filtered {
        Filtered { input, filter, arena: Bump::new() }
    }

    fn over(&self, input: Box<dyn Source>) -> Filtered {
        Filtered::new(input, Arc::clone(&self.filter))
    }
}

impl Source for Filtered {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            let matched = self
                .filter
                .matches(self.input.doc(), &cx.matching_current(&*self.input, &self.arena))?;
            renew(&mut self.arena);
            if matched {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    forks_with_input!();

    splits_with_input!();

    over_input!();
}
