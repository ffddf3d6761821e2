//! Following the changes of other nodes.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use nagi_error::Result;
use nagi_kv::{Read, sync::point};

use super::Members;
use crate::{
    Catalog, Collection, Store,
    catalog::Reloaded,
    engine_error::engine,
    node::{Board, Intent},
    store::ddl::Idents,
};

impl Store {
    /// Makes the catalog in memory the stored one, and keeps writers out of the collections of intents; servers read
    /// settings that have changed. `_alone` is what the lock of DDL protects. A timestamp and a request, and a few more
    /// for each collection that has changed.
    pub(crate) fn catch_up(&self, members: &Members, _alone: &mut Idents) -> Result<Board> {
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let read: &dyn Read = &*snapshot;
        let board = Board::read(read).map_err(engine)?;
        let version = members.version.load(SeqCst);
        let changed = board.changes.version != version;
        let now = self.catalog.load_full();
        let reloaded = match changed {
            true => Some(now.reloaded(read, board.changes.after(version))?),
            false => None,
        };
        // A collection that is new here must not be written to before it is closed.
        let newest = reloaded.as_ref().map_or(&*now, |reloaded| &reloaded.catalog);
        members.close(self, newest, &board.intents);
        if let Some(reloaded) = reloaded {
            members.note_changed_settings(&reloaded.replaced);
            members.note_changed_settings(&reloaded.published);
            self.publish_reloaded(reloaded);
        }
        members.is_behind.store(false, SeqCst);
        members.open(&board.intents);
        members.follow_settings(board.settings)?;
        members.note_questions(board.questions);
        // The others are told of it from now on.
        members.version.store(board.changes.version, SeqCst);
        Ok(board)
    }

    fn publish_reloaded(&self, new: Reloaded) {
        let publishing = self.stamps.publish();
        self.put_current(&new.replaced, &new.published);
        point();
        self.catalog.store(Arc::new(new.catalog));
        drop(publishing);
        new.replaced.iter().for_each(|old| old.state.arrivals.announce());
        self.open.end_users_of(&new.replaced);
    }
}

impl Members {
    /// Freezes the collections of the intents of other nodes, as far as they are in `catalog`.
    fn close(&self, store: &Store, catalog: &Catalog, intents: &[Intent]) {
        let mut frozen: Vec<Arc<Collection>> = Vec::new();
        let mut closed = self.closed.lock();
        for intent in intents.iter().filter(|intent| intent.node != self.node()) {
            let closed = closed.entry(intent.id).or_default();
            for ident in &intent.idents {
                let Some(collection) = catalog.names.by_ident(*ident) else { continue };
                closed.frozen.entry(*ident).or_insert_with(|| {
                    collection.state.frozen.fetch_add(1, SeqCst);
                    frozen.push(Arc::clone(collection));
                    Arc::clone(&collection.state)
                });
            }
        }
        drop(closed);
        // A client may hold a transaction open for long: it is aborted instead of waited for.
        store.open.end_users_of(&frozen);
    }

    /// Lets writers into the collections of intents that are gone.
    fn open(&self, intents: &[Intent]) {
        self.closed.lock().retain(|id, closed| {
            let stays = intents.iter().any(|intent| intent.id == *id);
            if !stays {
                closed.frozen.values().for_each(|state| {
                    state.frozen.fetch_sub(1, SeqCst);
                });
            }
            stays
        });
    }
}
