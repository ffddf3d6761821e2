//! The source of all stages that derive one document from each input document.

use std::sync::Arc;

use nagi_lang::expr::Eval;

use super::prelude::*;
use crate::source::{Absorbed, forks_with_input, splits_with_input};

/// Writes the output for a document.
pub(super) trait Mapper: Send + Sync + 'static {
    fn map<'a>(&'a self, cx: &Eval<'a>, out: &mut Vec<u8>) -> Result<()>;
}

/// Applies a mapper to each document.
pub(super) struct Mapped<M> {
    input: Box<dyn Source>,
    mapper: Arc<M>,
    out: Vec<u8>,
    arena: Bump,
}

impl<M: Mapper> Mapped<M> {
    fn over(&self, input: Box<dyn Source>) -> Mapped<M> {
        let mapper = Arc::clone(&self.mapper);
        Mapped { input, mapper, out: Vec::new(), arena: Bump::new() }
    }

    pub(super) fn boxed(input: Box<dyn Source>, mapper: Arc<M>) -> Box<dyn Source> {
        Box::new(Mapped { input, mapper, out: Vec::new(), arena: Bump::new() })
    }
}

impl<M: Mapper> Source for Mapped<M> {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        self.out.clear();
        self.mapper.map(&cx.eval_current(&*self.input, &self.arena), &mut self.out)?;
        renew(&mut self.arena);
        Ok(true)
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    forks_with_input!();

    splits_with_input!();

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        self.input.meta()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
