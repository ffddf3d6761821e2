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

    /// Ends all cursors.
    pub(crate) fn clear(&self) {}
}
