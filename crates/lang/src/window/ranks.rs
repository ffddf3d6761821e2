//! `$rank`, `$denseRank`, `$documentNumber`: the rank of a document in its partition.
//!
//! The values are the documents' sort keys, in order. Documents with equal keys have the same rank. Null and missing
//! are equal keys, as in `$sort`.

use nagi_bson::{Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::collation::{self, Collation};

/// The kind of rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// One more than the number of documents before the first one with an equal key.
    Rank,
    /// The number of distinct keys so far.
    Dense,
    /// The number of documents so far.
    Documents,
}

/// The rank of the document that was added last.
pub(super) struct Ranks {
    counting: Counting,
    /// The collation of keys that are strings.
    collation: Option<&'static Collation>,
    last: Option<ValueBuf>,
    documents: i64,
    rank: i64,
}

impl Ranks {
    pub(super) fn new(counting: Counting, collation: Option<&'static Collation>) -> Ranks {
        Ranks { counting, collation, last: None, documents: 0, rank: 0 }
    }
}

impl WindowState for Ranks {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.documents += 1;
        if self.counting == Counting::Documents {
            self.rank = self.documents;
            return Ok(());
        }
        let same = |last: &ValueBuf| collation::equal(last.value(), value, self.collation);
        let same = self.last.as_ref().is_some_and(same);
        if !same {
            self.last = Some(ValueBuf::new(value));
            self.rank = match self.counting {
                Counting::Dense => self.rank + 1,
                _ => self.documents,
            };
        }
        Ok(())
    }

    fn remove(&mut self) {}

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(i32::try_from(self.rank).map_or(Value::Int64(self.rank), Value::Int32));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.last.as_ref().map_or(0, ValueBuf::heap_bytes)
    }
}
