//! The state of a transaction of several statements between two of them.

use std::sync::Arc;

use nagi_kv::Txn;

use super::Touched;
use crate::{
    Collection, Index,
    store::{commit::change::Logged, contended::Contended},
};

/// The state of a transaction that waits for its next statement.
pub(crate) struct Suspended {
    pub(super) txn: Box<dyn Txn>,
    pub(super) touched: Vec<Touched>,
    pub(super) multikey: Vec<(Arc<Index>, Vec<u64>)>,
    pub(super) changed: Vec<u64>,
    pub(super) conflict: bool,
    pub(super) contended: Option<Contended>,
    pub(crate) logged: Logged,
}

impl Suspended {
    pub(crate) fn new(txn: Box<dyn Txn>) -> Suspended {
        let (touched, multikey, changed) = (Vec::new(), Vec::new(), Vec::new());
        let (conflict, contended, logged) = (false, None, Logged::default());
        Suspended { txn, touched, multikey, changed, conflict, contended, logged }
    }

    pub(crate) fn read(&self) -> &dyn Txn {
        &*self.txn
    }

    pub(crate) fn txn(&mut self) -> &mut dyn Txn {
        &mut *self.txn
    }

    /// The record on which it had a conflict.
    pub(crate) fn contended(&self) -> Option<Contended> {
        self.contended.clone()
    }

    /// Returns true if it has written to the collection.
    pub(crate) fn has_touched(&self, collection: &Collection) -> bool {
        self.touched.iter().any(|touched| touched.collection.ident == collection.ident)
    }
}
