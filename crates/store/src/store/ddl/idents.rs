//! Where new idents come from.
//!
//! This process counts them if it is the only writer: the transaction that uses an ident stores the next one. Otherwise
//! each node takes blocks, in transactions of their own, so that nodes that create collections at once neither get the
//! same ident nor conflict. The rest of a block is lost when the node ends.
//!
//! ```text
//!   stored NextIdent    1       65       129
//!   node A              1 .. 64
//!   node B                      65 .. 128
//! ```

use nagi_error::{Code, Result, bail};
use nagi_kv::{Capabilities, Space, Txn};

use crate::{
    Store,
    catalog::stored_ident,
    engine_error::engine,
    ident::{CatalogKey, Ident},
};

/// Idents of a block: a start costs so many at most.
const BLOCK: u32 = 64;

/// The idents that this process may use next.
pub(crate) struct Idents {
    next: u32,
    end: u32,
}

impl Idents {
    /// `next`: the stored next ident.
    pub(crate) fn new(promises: &Capabilities, next: u32) -> Idents {
        let end = if promises.only_writer { Ident::END } else { next };
        Idents { next, end }
    }

    /// The next one; `txn` is that which will store what has it.
    pub(super) fn next(&mut self, store: &Store, txn: &mut dyn Txn) -> Result<Ident> {
        let counts = store.promises.only_writer;
        if self.next >= self.end {
            (self.next, self.end) = match counts {
                true => return used_up(),
                false => store.alone(&mut take)?,
            };
        }
        let ident = Ident(self.next);
        self.next += 1;
        if counts {
            let key = Ident(0).catalog_key(CatalogKey::NextIdent);
            txn.put(Space::Catalog, &key, &self.next.to_le_bytes()).map_err(engine)?;
        }
        Ok(ident)
    }
}

/// Takes a block: its first ident, and the one behind its last.
fn take(txn: &mut dyn Txn) -> Result<(u32, u32)> {
    let key = Ident(0).catalog_key(CatalogKey::NextIdent);
    let mut buf = Vec::new();
    let next = match txn.get(Space::Catalog, &key, &mut buf).map_err(engine)? {
        Some(stored) => stored_ident(stored)?,
        None => 1,
    };
    if next >= Ident::ASSIGNED_END {
        return used_up();
    }
    let end = next.saturating_add(BLOCK).min(Ident::ASSIGNED_END);
    txn.put(Space::Catalog, &key, &end.to_le_bytes()).map_err(engine)?;
    Ok((next, end))
}

#[cold]
fn used_up<T>() -> Result<T> {
    bail!(
        Code::OPERATION_FAILED,
        "all idents of collections and indexes are used up; dump the data and restore them into an empty server"
    )
}
