//! Catalogs that follow the changes of other nodes: each changed collection is read anew, and keeps what this process
//! knows of it (its state, the uses of its indexes).

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::{Error, Result};
use nagi_kv::{Read, Space};

use super::{Catalog, Collection, persist};
use crate::{
    engine_error::engine,
    ident::{CatalogKey, Ident},
};

/// A catalog that is not published yet.
pub(crate) struct Reloaded {
    pub(crate) catalog: Catalog,
    /// The versions before, of the collections that have changed or are gone.
    pub(crate) replaced: Vec<Arc<Collection>>,
    /// New collections, and new versions.
    pub(crate) published: Vec<Arc<Collection>>,
}

impl Catalog {
    /// The catalog as it is stored, of which only the collections `changed` differ from this one; none if that is not
    /// known, and all are read. A get and a few more for each collection.
    pub(crate) fn reloaded(
        &self,
        read: &dyn Read,
        changed: Option<Vec<Ident>>,
    ) -> Result<Reloaded> {
        let changed = match changed {
            Some(changed) => changed,
            None => all(read, self)?,
        };
        let mut new =
            Reloaded { catalog: self.clone(), replaced: Vec::new(), published: Vec::new() };
        let mut buf = Vec::new();
        for ident in changed {
            let older = self.names.by_ident(ident);
            let key = ident.catalog_key(CatalogKey::Collection);
            let stored = read.get(Space::Catalog, &key, &mut buf).map_err(engine)?;
            let Some(stored) = stored else {
                new.replaced.extend(older.cloned());
                continue;
            };
            let doc = Doc::parse_wrapped(stored).map_err(Error::from)?;
            let mut version = persist::load_version(read, ident, doc)?;
            if let Some(older) = older {
                version = version.with_memory_of(older);
                if version.to_doc() == older.to_doc() {
                    continue;
                }
                new.replaced.push(Arc::clone(older));
            }
            new.published.push(Collection::new(version));
        }
        // Names may have been exchanged.
        new.replaced.iter().for_each(|old| new.catalog.names.remove(&old.namespace));
        for collection in &new.published {
            new.catalog.names.put(collection);
        }
        Ok(new)
    }
}

/// The idents of all collections that are stored or known.
fn all(read: &dyn Read, known: &Catalog) -> Result<Vec<Ident>> {
    let mut idents: Vec<Ident> = known.iter().map(|collection| collection.ident).collect();
    let (start, end) = ([CatalogKey::Collection as u8], [CatalogKey::Collection as u8 + 1]);
    let mut cursor = read.cursor(Space::Catalog, &start, &end).map_err(engine)?;
    let mut found = cursor.seek(&start).map_err(engine)?;
    while found {
        if let [_, a, b, c, d] = *cursor.key() {
            idents.push(Ident(u32::from_be_bytes([a, b, c, d])));
        }
        found = cursor.next().map_err(engine)?;
    }
    idents.sort_unstable();
    idents.dedup();
    Ok(idents)
}
