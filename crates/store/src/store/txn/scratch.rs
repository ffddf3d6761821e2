//! The buffers of a thread's transactions, so that an insert allocates only what the engine allocates.

use std::cell::RefCell;

use crate::{index::keygen::KeySink, record};

/// Buffers that outlive the transaction.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) before: Vec<u8>,
    pub(super) old_keys: KeySink,
    pub(super) new_keys: KeySink,
}

impl Scratch {
    /// Memory held, in bytes.
    fn bytes(&self) -> usize {
        let keys = self.old_keys.heap_bytes() + self.new_keys.heap_bytes();
        self.key.capacity() + self.value.capacity() + self.before.capacity() + keys
    }
}

thread_local! {
    static SCRATCH: RefCell<Option<Box<Scratch>>> = const { RefCell::new(None) };
}

/// The buffers of the thread's last transaction.
pub(super) fn take() -> Box<Scratch> {
    SCRATCH.take().unwrap_or_default()
}

/// Keeps the buffers for the next transaction, unless they are large.
pub(super) fn put_back(scratch: Box<Scratch>) {
    if scratch.bytes() <= record::SCRATCH_BYTES_MAX {
        SCRATCH.set(Some(scratch));
    }
}
