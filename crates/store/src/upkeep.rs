//! Upkeep on request: make durable, give space back.

use nagi_error::Result;
use nagi_kv::Space;

use crate::{Collection, Store, engine_error::engine};

impl Store {
    /// Makes every write that was acknowledged before durable. One sync of the log.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush().map_err(engine)
    }

    /// Rewrites a collection and its indexes so that deleted documents give their space back.
    /// May take long; reads and writes go on.
    pub fn compact(&self, collection: &Collection) -> Result<()> {
        let ident = collection.ident;
        self.engine.compact(collection.space, &ident.bytes(), &ident.end()).map_err(engine)?;
        for index in &collection.indexes {
            let ident = index.ident;
            self.engine.compact(Space::Index, &ident.bytes(), &ident.end()).map_err(engine)?;
        }
        Ok(())
    }
}
