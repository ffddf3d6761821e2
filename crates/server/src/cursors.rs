//! Open cursors between batches: ids, owners, idle time-outs, kills.

use crate::session::SessionId;

/// The table of open cursors.
pub(crate) struct Cursors {}

impl Cursors {
    pub(crate) fn new(_: &[u8; 16]) -> Cursors {
        Cursors {}
    }

    /// Ends the cursors not used since `before_ms`; how many.
    pub(crate) fn expire(&self, _before_ms: i64) -> usize {
        0
    }

    /// Ends the cursors of a session.
    pub(crate) fn end_session(&self, _session: &SessionId) {}

    /// Ends a cursor.
    pub(crate) fn kill(&self, _id: i64, _ns: Option<&str>) -> bool {
        false
    }

    /// Documents a cursor has returned so far, for the `startingFrom` of OP_REPLY.
    pub(crate) fn returned(&self, _id: i64) -> i32 {
        0
    }

    /// Ends all cursors.
    pub(crate) fn clear(&self) {}
}
