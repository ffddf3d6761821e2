//! What a collection was when its replacement began: a change made meanwhile must not be lost with the old collection.

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result, bail};

use crate::{Namespace, catalog::Collection};

/// Options and indexes of a collection at one moment. None of both if there was no such collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetFacts {
    options: DocBuf,
    /// The specifications of the indexes that were built, in the order of creation.
    indexes: Vec<DocBuf>,
}

impl TargetFacts {
    /// Copies options and index specifications.
    pub fn of(collection: Option<&Collection>) -> TargetFacts {
        let Some(collection) = collection else { return TargetFacts::default() };
        TargetFacts {
            options: collection.options.doc.clone(),
            indexes: collection.ready_indexes().map(|index| index.spec.doc.clone()).collect(),
        }
    }

    /// The options as `create` takes them.
    pub fn options(&self) -> Doc<'_> {
        self.options.as_doc()
    }

    /// The specifications of all indexes but that of `_id`, as `createIndexes` takes them.
    pub fn indexes(&self) -> impl Iterator<Item = Doc<'_>> {
        let all = self.indexes.iter().map(DocBuf::as_doc);
        all.filter(|spec| spec.get("name").as_str() != Some("_id_"))
    }

    /// Refuses a collection with other options or indexes.
    ///
    /// # Errors
    /// 125.
    pub(super) fn check(&self, name: &Namespace, now: Option<&Collection>) -> Result<()> {
        let now = TargetFacts::of(now);
        if now.options != self.options {
            bail!(
                Code::COMMAND_FAILED,
                "collection options of target collection {name} changed during processing. Original options: {}, \
                 new options: {}",
                self.options.as_doc(),
                now.options.as_doc()
            );
        }
        if now.indexes != self.indexes {
            bail!(
                Code::COMMAND_FAILED,
                "indexes of target collection {name} changed during processing."
            );
        }
        Ok(())
    }
}
