//! Index filters of servers that share the data: each is a document, which all of them install. A server that has the
//! data alone has them in memory only, as MongoDB does.

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result, bail};
use nagi_store::{Durability, Namespace, Store, WriteOptions};
use parking_lot::Mutex;

use crate::settings::persisted;

/// The most filters of all collections.
const COUNT_MAX: usize = 10_000;

/// See the module's header.
#[derive(Default)]
pub(crate) struct IndexFilters {
    /// One at a time reads them: the last one has read last.
    rereading: Mutex<()>,
}

fn namespace() -> Namespace {
    Namespace::new("config", "system.indexFilters").expect("a fixed name that is allowed")
}

impl IndexFilters {
    /// Reads all filters, and installs them. A scan.
    pub(crate) fn reread(&self, store: &Store) -> Result<()> {
        let _one = self.rereading.lock();
        let Some(collection) = store.collection(&namespace()).filter(|found| !found.is_view())
        else {
            nagi_query::install_index_filters(store, &[]);
            return Ok(());
        };
        let (mut all, snapshot) = (Vec::new(), store.snapshot()?);
        let mut cursor = snapshot.reader().scan(&collection, true)?;
        while all.len() < COUNT_MAX && cursor.advance()? {
            all.push(cursor.doc().to_buf());
        }
        let unusable = nagi_query::install_index_filters(store, &all);
        if unusable > 0 {
            log::warn!(target: "QUERY", id = 8_200_403, count = unusable;
                "Stored index filters cannot be used: they are damaged, or memory is short");
        }
        Ok(())
    }

    /// Stores a filter, for all servers.
    ///
    /// # Errors
    /// 146 if there are too many. Those of the store.
    pub(crate) fn set(&self, store: &Store, filter: &DocBuf) -> Result<()> {
        self.remove(store, &|doc| nagi_query::is_index_filter_of_none(store, doc))?;
        if let Some(collection) = store.collection(&namespace())
            && collection.count() >= COUNT_MAX as i64
        {
            bail!(Code::EXCEEDED_MEMORY_LIMIT, "there are {COUNT_MAX} index filters already");
        }
        persisted::replace(store, &namespace(), filter.as_doc())?;
        self.reread(store)
    }

    /// Removes the filters for which `is_one` holds, at all servers.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn remove(&self, store: &Store, is_one: &dyn Fn(Doc<'_>) -> bool) -> Result<()> {
        let Some(collection) = store.collection(&namespace()) else { return Ok(()) };
        let options = WriteOptions { durability: Durability::Synced, ..WriteOptions::default() };
        store.write(options, &mut |txn| {
            let mut cursor = txn.reader().scan(&collection, true)?;
            while cursor.advance()? {
                if is_one(cursor.doc()) {
                    let old = cursor.doc().to_buf();
                    txn.delete(&collection, cursor.id(), old.as_doc())?;
                }
            }
            Ok(())
        })?;
        self.reread(store)
    }
}
