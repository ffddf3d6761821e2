//! The sources of a cursor's documents.

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;
use nagi_query::{Execution, Room, Take};

use crate::core::command::Watch;

/// A list that was made at once, or a query that runs batch by batch.
pub(crate) enum Producer {
    List(List),
    Query(Box<Execution>),
}

/// Documents that are already in memory.
pub(crate) struct List {
    docs: std::iter::Peekable<std::vec::IntoIter<DocBuf>>,
}

impl Producer {
    /// Makes a producer of documents that are already in memory.
    pub(crate) fn list(docs: Vec<DocBuf>) -> Producer {
        Producer::List(List { docs: docs.into_iter().peekable() })
    }

    /// Passes documents to `take` until it has enough. Returns false if there are no more documents.
    pub(crate) fn batch(
        &mut self,
        watch: &Watch<'_>,
        room: Room,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        match self {
            Producer::Query(execution) => execution.batch_of(watch, room, take),
            Producer::List(list) => list.batch(take),
        }
    }

    /// Releases the engine's snapshot and iterators before a pause.
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
