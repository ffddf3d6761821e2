//! The numbers of new records.
//!
//! If this process is the only writer, it counts them in memory, from the last record on. Otherwise each node takes
//! blocks (`catalog/numbers.rs`), in transactions of their own before they are used. The number of a record in a capped
//! collection is the order of its insertion, so there the transaction that uses numbers counts them: transactions that
//! insert into one capped collection are serialized anyway.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use nagi_error::Result;
use nagi_kv::{Space, Txn};

use super::WriteTxn;
use crate::{
    Collection, Reader,
    catalog::{CollectionVersion, stored_next},
    engine_error::engine,
    ident::CatalogKey,
    record_key::Layout,
    store::Store,
};

impl Store {
    /// With the entry of a new collection: stores which numbers are no longer this node's alone.
    pub(crate) fn put_next_record(
        &self,
        txn: &mut dyn Txn,
        collection: &CollectionVersion,
    ) -> Result<()> {
        let is_numbered = collection.layout == Layout::Numbers && !collection.is_view();
        if self.promises.only_writer || collection.options.capped || !is_numbered {
            return Ok(());
        }
        let Some(next) = collection.state.numbers.lock().bound() else { return Ok(()) };
        let key = collection.ident.catalog_key(CatalogKey::NextRecord);
        txn.put(Space::Catalog, &key, &next.to_le_bytes()).map_err(engine)
    }
}

impl WriteTxn<'_> {
    pub(super) fn next_record_number(&mut self, collection: &Collection) -> Result<i64> {
        let state = &collection.state;
        if state.next_record.load(Acquire) == 0 {
            match (self.store.promises.only_writer, collection.options.capped) {
                (true, _) => find_next(self.store, collection)?,
                (false, true) => return self.next_in_order(collection),
                (false, false) => return next_of_blocks(self.store, collection),
            }
        }
        nagi_percore::note_shared("record ids", 1, 1);
        Ok(state.next_record.fetch_add(1, AcqRel))
    }

    /// Counted by this transaction.
    fn next_in_order(&mut self, collection: &Collection) -> Result<i64> {
        let key = collection.ident.catalog_key(CatalogKey::NextRecord);
        let txn = self.txn();
        let next = next_stored(txn, collection)?;
        txn.put(Space::Catalog, &key, &(next + 1).to_le_bytes()).map_err(engine)?;
        Ok(next)
    }
}

/// Finds where this process, the only writer, begins to count.
#[cold]
fn find_next(store: &Store, collection: &Collection) -> Result<()> {
    let state = &collection.state;
    let _one = state.numbers.lock();
    if state.next_record.load(Acquire) == 0 {
        state.next_record.store(after_last(store.latest(), collection)?, Release);
    }
    Ok(())
}

/// One of this node's numbers. Takes a block if none is left: two timestamps, a get, and a commit.
fn next_of_blocks(store: &Store, collection: &Collection) -> Result<i64> {
    let mut numbers = collection.state.numbers.lock();
    loop {
        if let Some(number) = numbers.take() {
            return Ok(number);
        }
        let size = numbers.size();
        let first = store.alone(&mut |txn| {
            let first = next_stored(txn, collection)?;
            let key = collection.ident.catalog_key(CatalogKey::NextRecord);
            txn.put(Space::Catalog, &key, &(first + size).to_le_bytes()).map_err(engine)?;
            Ok(first)
        })?;
        numbers.refill(first);
    }
}

/// The next number as a transaction sees it.
fn next_stored(txn: &dyn Txn, collection: &Collection) -> Result<i64> {
    let key = collection.ident.catalog_key(CatalogKey::NextRecord);
    let mut buf = Vec::new();
    match txn.get(Space::Catalog, &key, &mut buf).map_err(engine)? {
        Some(stored) => stored_next(stored),
        // No node has inserted into it yet, or none that stores the number.
        None => after_last(Reader::of(txn), collection),
    }
}

fn after_last(reader: Reader<'_>, collection: &Collection) -> Result<i64> {
    let mut last = reader.scan(collection, false)?;
    let found = last.advance()?.then(|| last.id().number()).flatten();
    Ok(found.map_or(1, |number| number + 1))
}
