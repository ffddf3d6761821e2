//! Passes on the documents that match: `$match` where no plan could take it over.

use std::{slice, sync::Arc};

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::filter::Filter;
use nagi_store::RecordId;

use super::{Cx, Source};

pub(crate) struct Filtered {
    input: Box<dyn Source>,
    filter: Arc<Filter>,
    arena: Bump,
}

impl Filtered {
    pub(crate) fn new(input: Box<dyn Source>, filter: Arc<Filter>) -> Filtered {
        Filtered { input, filter, arena: Bump::new() }
    }
}

impl Source for Filtered {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            let matched = self.filter.matches(self.input.doc(), &cx.matching(&self.arena))?;
            self.arena.reset();
            if matched {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn record_id(&self) -> Option<RecordId> {
        self.input.record_id()
    }

    fn is_at_end(&self) -> bool {
        self.input.is_at_end()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
