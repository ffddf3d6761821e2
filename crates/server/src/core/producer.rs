//! Where the documents of a cursor come from.

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;
use nagi_query::{Execution, Take};

use crate::core::command::Watch;

/// A list made at once, or a query that runs batch by batch.
pub(crate) enum Producer {
    List(List),
    Query(Box<Execution>),
}

/// Documents that are there already.
pub(crate) struct List {
    docs: std::iter::Peekable<std::vec::IntoIter<DocBuf>>,
}

impl Producer {
    /// From documents that are there already.
    pub(crate) fn list(docs: Vec<DocBuf>) -> Producer {
        Producer::List(List { docs: docs.into_iter().peekable() })
    }

    /// Hands out documents until the receiver has enough; false once there are no more.
    pub(crate) fn batch(
        &mut self,
        watch: &Watch<'_>,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        match self {
            Producer::Query(execution) => execution.batch(watch, take),
            Producer::List(list) => list.batch(take),
        }
    }

    /// Before a pause: gives back what the engine lent.
    pub(crate) fn save(&mut self) {
        if let Producer::Query(execution) = self {
            execution.save();
        }
    }
}

impl List {
    fn batch(&mut self, take: &mut dyn FnMut(Doc<'_>) -> Result<Take>) -> Result<bool> {
        while let Some(doc) = self.docs.peek() {
            let answer = take(doc.as_doc())?;
            if answer != Take::Refused {
                self.docs.next();
            }
            if answer != Take::More {
                return Ok(self.docs.peek().is_some());
            }
        }
        Ok(false)
    }
}
