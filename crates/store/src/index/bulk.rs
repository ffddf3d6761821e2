//! What an index has while it is built from sorted keys.

use std::sync::Arc;

use nagi_kv::sync::Mutex;

use crate::ident::Ident;

/// What an index has while it is built in bulk.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Where writers note what they change.
    pub(crate) side: Ident,
    /// Held by who loads keys. Whoever drops the range waits for it: a load follows no lock.
    pub(crate) loading: Mutex<()>,
}

impl Bulk {
    pub(crate) fn new(side: Ident) -> Arc<Bulk> {
        Arc::new(Bulk { side, loading: Mutex::new(()) })
    }
}
