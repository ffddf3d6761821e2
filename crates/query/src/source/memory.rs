//! A source over documents in memory: for inner pipelines, `$facet`, and tests.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::Result;

use super::{Cx, Source, document, metadata};

/// Yields documents in memory, each with its metadata after it.
pub(crate) struct Documents {
    docs: Arc<Vec<Box<[u8]>>>,
    next: usize,
}

impl Documents {
    pub(crate) fn new(docs: Arc<Vec<Box<[u8]>>>) -> Documents {
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
        document(&self.docs[self.next - 1])
    }

    fn meta(&self) -> Doc<'_> {
        metadata(&self.docs[self.next - 1])
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
