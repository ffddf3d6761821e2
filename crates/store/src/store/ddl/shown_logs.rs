//! The collections that show the change log and its pre-images.

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use super::{Ddl, create::made};
use crate::{
    Namespace, Store,
    catalog::{Collection, CollectionOptions, CollectionVersion},
    engine_error::engine,
    record_key::Layout,
    store::change_log,
};

impl Store {
    /// Refuses to change the collection that shows the change log, and to drop it while changes are logged (20).
    pub(crate) fn refuse_live_log(&self, collection: &CollectionVersion, what: &str) -> Result<()> {
        if !collection.shows_log() || what == "drop" && !self.has_change_log() {
            return Ok(());
        }
        if collection.is_pre_images() {
            bail!(Code::ILLEGAL_OPERATION, "can't {what} {}", collection.namespace);
        }
        bail!(Code::ILLEGAL_OPERATION, "can't {what} live oplog while replicating")
    }

    /// Creates the collection that shows the pre-images in the log, if there is none.
    pub fn show_pre_images(&self) -> Result<()> {
        let namespace = Namespace::parse(change_log::PRE_IMAGES_NAMESPACE)?;
        let mut ddl = Ddl::begin(self)?;
        let other = ddl.collection(&namespace);
        if !other.as_ref().is_some_and(|shown| shown.is_pre_images()) {
            other.map_or(Ok(()), |other| ddl.remove(&other))?;
            let given = change_log::image_options();
            let options = CollectionOptions::parse(given.as_doc(), &namespace)?;
            let options = CollectionOptions { clustered: None, ..options };
            let version = made(&mut ddl, &namespace, options, None)?;
            let (indexes, layout) = (Box::default(), Layout::PreImages);
            ddl.put_over(CollectionVersion { indexes, layout, ..version }, None)?;
            ddl.finish()?;
        }
        change_log::connect(&self.catalog(), &self.feed.image_age);
        Ok(())
    }

    /// Creates the collection that shows the change log, or sets its size if there is one. `bytes_max`: the size that
    /// it lists.
    pub fn show_change_log(&self, bytes_max: i64) -> Result<Arc<Collection>> {
        let namespace = Namespace::parse(change_log::NAMESPACE)?;
        let given = nagi_bson::doc! { "capped": true, "size": bytes_max };
        let options = CollectionOptions::parse(given.as_doc(), &namespace)?;
        let mut ddl = Ddl::begin(self)?;
        let version = match ddl.collection(&namespace) {
            Some(shown) if shown.layout == Layout::Stamps => {
                if shown.options.size_bytes_max == options.size_bytes_max {
                    return Ok(shown);
                }
                CollectionVersion { options, ..shown.with_indexes(Vec::new()) }
            }
            other => {
                // Entries of a log that was dropped while the server was not a member of a replica set.
                self.engine.drop_range(Space::Changes, &[0], &[0xFF; 13]).map_err(engine)?;
                // An ordinary collection of that time.
                other.map_or(Ok(()), |other| ddl.remove(&other))?;
                let version = made(&mut ddl, &namespace, options, None)?;
                CollectionVersion { indexes: Box::default(), layout: Layout::Stamps, ..version }
            }
        };
        let shown = ddl.put_over(version, None)?;
        ddl.finish()?;
        Ok(shown)
    }
}
