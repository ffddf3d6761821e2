//! Over a store that several nodes share: what this server has in memory of users, roles and settings is read anew when
//! any node changes it.
//!
//! The store calls [`Server::reread_settings`], and a change is answered when all nodes have done it (`nagi_store`,
//! `members/settings.rs`). So there is one list of what has to be read anew, which is here.

use std::sync::Arc;

use nagi_error::Result;

use crate::core::server::Server;

/// From now on the server follows the changes of other nodes. Without effect if no others can share the data.
///
/// # Errors
/// Those of the store.
pub(crate) fn follow(server: &Arc<Server>) -> Result<()> {
    let weak = Arc::downgrade(server);
    server.store.on_changed_settings(move || match weak.upgrade() {
        Some(server) => server.reread_settings(),
        None => Ok(()),
    })
}

impl Server {
    /// Reads all of it anew. A get for each document; users and roles are read again when they are needed. Waits for
    /// nothing but the store.
    fn reread_settings(&self) -> Result<()> {
        let (store, settings) = (&self.store, &self.settings);
        self.auth.changed();
        settings.cluster_params.reread(store)?;
        settings.rw_defaults.reread(store)?;
        settings.write_block.reread(store)?;
        settings.query_settings.reread(store)?;
        settings.index_filters.reread(store)?;
        if let Err(error) = self.apply_audit_config() {
            log::warn!(target: "COMMAND", id = 8_200_402, error = error.message();
                "The stored configuration of the audit log cannot be used; the one before stays in use");
        }
        Ok(())
    }
}
