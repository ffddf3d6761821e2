//! What a write transaction did to indexes, for those who show it: the profiler, the log of slow operations.

use crate::WriteTxn;

/// Index keys that a transaction has put and taken out so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysWritten {
    pub inserted: u64,
    pub deleted: u64,
}

impl WriteTxn<'_> {
    /// Of this attempt; of the running statement only, in a transaction of several.
    pub fn keys_written(&self) -> KeysWritten {
        self.keys
    }
}
