//! Statistics of the index keys written by a transaction, for the profiler and the slow-operation log.

use crate::WriteTxn;

/// Index keys that a transaction has inserted and deleted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysWritten {
    pub inserted: u64,
    pub deleted: u64,
}

impl WriteTxn<'_> {
    /// The keys of this attempt; in a transaction of several statements, those of the running statement.
    pub fn keys_written(&self) -> KeysWritten {
        self.keys
    }
}
