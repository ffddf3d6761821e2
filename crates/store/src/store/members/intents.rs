//! Intents: all nodes keep their writers out of collections that one of them changes.

use std::collections::BTreeSet;

use nagi_error::Result;

use super::Members;
use crate::{
    Store, clock,
    engine_error::engine,
    ident::Ident,
    node::{Board, Intent, put_intents},
};

/// An intent on the board. Dropping it removes it: the other nodes let their writers in, after they have followed the
/// changes that were made meanwhile.
pub(crate) struct Closing<'s> {
    store: &'s Store,
    members: &'s Members,
    id: u64,
    is_left: bool,
}

impl<'s> Closing<'s> {
    /// Asks the other nodes to keep writers out of these collections.
    pub(crate) fn begin(
        store: &'s Store,
        members: &'s Members,
        idents: BTreeSet<Ident>,
    ) -> Result<Closing<'s>> {
        let id = clock::random();
        members.posted.lock().insert(id);
        let closing = Closing { store, members, id, is_left: false };
        let intent = Intent { id, node: members.node(), idents: idents.into_iter().collect() };
        store.alone(&mut |txn| {
            let mut intents = Board::read(&*txn).map_err(engine)?.intents;
            if intents.iter().all(|other| other.id != id) {
                intents.push(intent.clone());
            }
            put_intents(txn, &intents).map_err(engine)
        })?;
        Ok(closing)
    }

    /// Waits until no other node has writers in them.
    ///
    /// # Errors
    /// 24 if a node lives and does not answer. Those of the engine.
    pub(crate) fn wait(&self) -> Result<()> {
        let id = self.id;
        self.members.wait_for_others("kept its writers out of a collection", &|seat| {
            seat.report.closed.contains(&id)
        })
    }
}

impl Closing<'_> {
    /// Leaves it to the thread that answers other nodes, which removes it after it has read the newest catalog.
    pub(crate) fn leave(mut self) {
        self.is_left = true;
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.members.posted.lock().remove(&self.id);
        if !self.is_left
            && let Err(error) = self.store.remove_intent(self.id)
        {
            // The thread that answers other nodes tries it again.
            log::warn!(target: "STORAGE", id = 8_200_433, error:% = error;
                "The other nodes could not be told that a change of the catalog has ended; retrying");
        }
    }
}

impl Store {
    pub(super) fn remove_intent(&self, id: u64) -> Result<()> {
        self.alone(&mut |txn| {
            let mut intents = Board::read(&*txn).map_err(engine)?.intents;
            let before = intents.len();
            intents.retain(|intent| intent.id != id);
            match intents.len() < before {
                true => put_intents(txn, &intents).map_err(engine),
                false => Ok(()),
            }
        })
    }
}
