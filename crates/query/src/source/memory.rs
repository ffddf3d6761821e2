//! Sources over documents in memory: inner pipelines, `$facet`, tests.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;

use super::{Cx, Source};

/// Yields documents that lie in memory.
pub(crate) struct Documents {
    docs: Arc<Vec<DocBuf>>,
    next: usize,
}

impl Documents {
    pub(crate) fn new(docs: Arc<Vec<DocBuf>>) -> Documents {
        Documents { docs, next: 0 }
    }
}

impl Source for Documents {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        if self.next >= self.docs.len() {
            return Ok(false);
        }
        self.next += 1;
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.docs[self.next - 1].as_doc()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
