//! Reads records by their keys, with a cursor where the keys are neighbours.
//!
//! An index whose order is that of insertion (`_id`, a time) refers to records that are stored next to each other.
//! A step of a cursor costs a tenth of a search, so such records are read by one search and many steps. The cursor
//! stays where it is for the next call, because a scan of such an index continues there.
//!
//! ```text
//!   keys       12 13 14 17 18   61   90  ...
//!              `-- cursor ---'  `- searches
//! ```
//!
//! The decision is made for each call: all of its records are read by the cursor, or all are searched.

use nagi_bson::Doc;
use nagi_error::Result;

use crate::{
    Collection,
    record::RecordBuf,
    record_key::{RecordId, RecordKey},
    store::reader::{Reader, RecordCursor},
};

/// Fewer records are searched: a cursor is created and placed for about the cost of this many searches.
const WALKED_MIN: usize = 3;
/// A cursor is used if it steps over at most this many records for each that is wanted. The others may be deleted, so
/// they are counted by their numbers.
const STEPS_EACH_MAX: i64 = 4;

/// Reads records of one collection in one snapshot after the other; see [`NearRecords::forget`].
#[derive(Default)]
pub struct NearRecords {
    cursor: Option<RecordCursor>,
    /// The number of the cursor's current record; none if the cursor has to be placed.
    at: Option<i64>,
}

impl NearRecords {
    /// Like [`Reader::records`], for ids that ascend. The reader's snapshot must be that of the call before, unless
    /// `forget` was called since.
    pub fn records(
        &mut self,
        reader: Reader<'_>,
        collection: &Collection,
        ids: &[RecordId],
        buf: &mut RecordBuf,
        visit: &mut dyn FnMut(usize, Option<Doc<'_>>),
    ) -> Result<()> {
        let (Some(RecordId::Id(first)), Some(RecordId::Id(last))) = (ids.first(), ids.last())
        else {
            return reader.records(collection, ids, buf, visit);
        };
        let most = ids.len() as i64 * STEPS_EACH_MAX;
        let placed = self.at.is_some_and(|at| (0..most).contains(&first.saturating_sub(at)));
        let near = last.saturating_sub(*first) < most && (placed || ids.len() >= WALKED_MIN);
        // A walk reads page by page: a round trip each.
        if !near || reader.is_far() {
            return reader.records(collection, ids, buf, visit);
        }
        let walked = self.walk(reader, collection, ids, placed, visit);
        // A transaction's cursor does not see what is written after it was placed.
        if walked.is_err() || !reader.is_snapshot() {
            self.forget();
        }
        walked
    }

    /// Closes the cursor, because another snapshot will be read.
    pub fn forget(&mut self) {
        (self.cursor, self.at) = (None, None);
    }

    fn walk(
        &mut self,
        reader: Reader<'_>,
        collection: &Collection,
        ids: &[RecordId],
        placed: bool,
        visit: &mut dyn FnMut(usize, Option<Doc<'_>>),
    ) -> Result<()> {
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => reader.scan(collection, true)?,
        };
        if !placed {
            self.at = None;
            if let Some(RecordId::Id(first)) = ids.first() {
                cursor.resume_after(RecordKey::Id(first.saturating_sub(1)));
            }
        }
        // At the end of the records the cursor has no position; a later call has to place it again.
        let mut at_end = false;
        for (index, id) in ids.iter().enumerate() {
            let RecordId::Id(wanted) = *id else { continue };
            while !at_end && self.at.is_none_or(|at| at < wanted) {
                at_end = !cursor.advance()?;
                self.at = (!at_end).then(|| cursor.id().number()).flatten();
            }
            let found = self.at == Some(wanted);
            visit(index, found.then(|| cursor.checked_doc()).transpose()?);
        }
        self.cursor = Some(cursor);
        Ok(())
    }
}
