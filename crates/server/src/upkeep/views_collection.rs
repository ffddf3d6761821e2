//! `system.views` of each database: a document for each view, as in MongoDB, for tools that list and read it.
//!
//! The views themselves are entries of the catalog. Each command that changes a view updates its document after the
//! commit, and the start of the server updates all documents, so a crash in between has no lasting effect. Clients
//! cannot write to the collection. Dropping it drops the views, as in MongoDB.

use nagi_bson::{DocBuf, Value};
use nagi_error::Result;
use nagi_store::{Collection, EditKind, Namespace, RecordBuf, WriteOptions};

use crate::core::server::Server;

/// The collection's name in each database with views.
pub(crate) const NAME: &str = "system.views";

impl Server {
    /// Updates the document of a view that was created, changed or dropped. A failure is only logged: the catalog entry
    /// defines the view.
    pub(crate) fn mirror_view(&self, namespace: &Namespace) {
        if let Err(error) = self.try_mirror(namespace) {
            log::warn!(target: "STORAGE", id = 8_200_052, namespace = namespace.as_str(), error = error.message();
                "The document of a view in system.views cannot be brought up to date");
        }
    }

    fn try_mirror(&self, namespace: &Namespace) -> Result<()> {
        // Two changes of one view must write their documents in the order of the changes.
        let _one = self.upkeep.views_mirrored.lock();
        let mirror = Namespace::new(namespace.database(), NAME)?;
        let mut shown = self.shown(namespace);
        loop {
            if shown.is_some() {
                self.store.collection_or_create(&mirror)?;
            }
            self.write_mirror(&mirror, namespace.as_str(), shown.as_ref())?;
            // Another node may have changed the view, and written the document of a later change before this one.
            let newest = self.shown(namespace);
            if newest == shown {
                return Ok(());
            }
            shown = newest;
        }
    }

    /// The document of a view, if there is one.
    fn shown(&self, namespace: &Namespace) -> Option<DocBuf> {
        let view = self.store.collection(namespace).filter(|found| found.is_view());
        view.map(|view| describe(&view))
    }

    /// Writes or removes the document of one view.
    fn write_mirror(&self, mirror: &Namespace, id: &str, shown: Option<&DocBuf>) -> Result<()> {
        self.store.write(WriteOptions::default(), &mut |txn| {
            let Some(collection) = txn.collection(mirror) else { return Ok(()) };
            let found = txn.reader().find_id(&collection, Value::String(id))?;
            let (record, shown) = match (found, shown) {
                (None, None) => return Ok(()),
                (None, Some(shown)) => return txn.insert(&collection, shown.as_doc()).map(drop),
                (Some(record), shown) => (record, shown),
            };
            txn.lock(&collection, record.key())?;
            let mut buffer = RecordBuf::default();
            let old = txn.reader().record(&collection, record.key(), &mut buffer)?;
            let Some(old) = old.map(|old| old.to_buf()) else { return Ok(()) };
            match shown {
                Some(shown) if shown.as_bytes() == old.as_bytes() => Ok(()),
                Some(shown) => txn
                    .update_by(
                        EditKind::Replacement,
                        &collection,
                        record.key(),
                        old.as_doc(),
                        shown.as_doc(),
                    )
                    .map(drop),
                None => txn.delete(&collection, record.key(), old.as_doc()).map(drop),
            }
        })?;
        Ok(())
    }

    /// Updates all documents, at the start.
    pub(crate) fn mirror_all_views(&self) -> Result<()> {
        let catalog = self.store.catalog();
        for view in catalog.iter().filter(|found| found.is_view()) {
            self.mirror_view(&view.namespace);
        }
        for mirror in catalog.iter().filter(|found| found.namespace.collection() == NAME) {
            for id in self.ids_of(mirror)? {
                match Namespace::parse(&id) {
                    Ok(namespace) => self.mirror_view(&namespace),
                    Err(_) => self.write_mirror(&mirror.namespace, &id, None)?,
                }
            }
        }
        Ok(())
    }

    /// The namespaces of the views that have a document.
    fn ids_of(&self, mirror: &Collection) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let snapshot = self.store.snapshot()?;
        let mut cursor = snapshot.reader().scan(mirror, true)?;
        while cursor.advance()? {
            ids.extend(cursor.doc().get("_id").as_str().map(str::to_owned));
        }
        Ok(ids)
    }

    /// Drops all views of a database whose `system.views` is dropped, except those of time series collections, with
    /// which their buckets would be dropped. Their documents come back at the next start.
    pub(crate) fn drop_views(&self, db: &str) -> Result<()> {
        let catalog = self.store.catalog();
        let plain = |found: &&std::sync::Arc<Collection>| {
            found.is_view() && catalog.buckets_of(&found.namespace).is_none()
        };
        for view in catalog.database(db).filter(plain) {
            self.store.drop_collection_of(&view.namespace, Some(view.uuid))?;
        }
        Ok(())
    }
}

/// The document of a view.
fn describe(view: &Collection) -> DocBuf {
    DocBuf::build(|out| {
        out.put("_id", view.namespace.as_str());
        for name in ["viewOn", "pipeline", "collation"] {
            let value = view.options.doc.get(name);
            if !value.is_missing() {
                out.put(name, value);
            }
        }
    })
}
