//! State of an index during a bulk build.

use std::sync::Arc;

use nagi_kv::sync::Mutex;

use crate::ident::Ident;

/// State of an index during a bulk build.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// The range in which writers log their changes.
    pub(crate) side: Ident,
    /// Held while keys are loaded. A drop of the range waits for it, because a load takes no other lock.
    pub(crate) loading: Mutex<()>,
}

impl Bulk {
    pub(crate) fn new(side: Ident) -> Arc<Bulk> {
        Arc::new(Bulk { side, loading: Mutex::new(()) })
    }
}
