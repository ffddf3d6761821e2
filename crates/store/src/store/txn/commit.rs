//! The commit: counters, the engine's batch, and what memory knows of the collections.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use nagi_error::Result;
use nagi_kv::{CommitStamp, Durability, Space, Txn};

use super::WriteTxn;
use crate::{
    engine_error::{UNDETERMINED, engine},
    memory,
    node::advance_settings,
    store::members::is_setting,
};

impl WriteTxn<'_> {
    /// Waits for the memory of the engine's batch, which is a copy of the staged writes. That of a client's transaction
    /// is charged while it is staged.
    ///
    /// # Errors
    /// 146 if there is none in time.
    fn wait_for_batch(&self) -> Result<()> {
        match self.store.private() {
            Some(_) => Ok(()),
            None => memory::wait(self.staged_bytes(), "the writes of a commit"),
        }
    }

    /// Over several nodes: stages the version of documents that servers have in memory, if it changes some.
    fn stage_settings(&self, txn: &mut dyn Txn) -> Result<Option<u64>> {
        if self.store.members.is_none() {
            return Ok(None);
        }
        let mut changed = self.touched.iter().filter(|touched| touched.is_changed);
        match changed.any(|touched| is_setting(&touched.collection.namespace)) {
            true => advance_settings(txn).map(Some).map_err(engine),
            false => Ok(None),
        }
    }

    /// Commits; on success the counters in memory are updated.
    pub(crate) fn commit(mut self, durability: Durability) -> Result<CommitStamp> {
        if self.conflict {
            return Err(engine(nagi_kv::Error::Conflict));
        }
        memory::check_refused()?;
        self.wait_for_batch()?;
        let mut txn = self.txn.take().expect("taken here only");
        for touched in &self.touched {
            if touched.count != 0 || touched.bytes != 0 {
                let key = touched.collection.ident.bytes();
                txn.add(Space::Counters, &key, &[touched.count, touched.bytes]).map_err(engine)?;
            }
        }
        self.store.count_logged(&mut *txn, &self.logged)?;
        let settings = self.stage_settings(&mut *txn)?;
        if let Some(cache) = &self.store.cache {
            self.changed.iter().for_each(|hash| cache.begin_write(*hash));
        }
        let result = self.store.commit(txn, durability);
        if let Some(cache) = &self.store.cache {
            self.changed.iter().for_each(|hash| cache.end_write(*hash));
        }
        let is_undetermined = result.as_ref().is_err_and(|error| error.code() == UNDETERMINED);
        if result.is_ok() || is_undetermined {
            let changed = self.touched.iter().filter(|touched| touched.is_changed);
            changed
                .for_each(|touched| self.store.client.note_changed(&touched.collection.namespace));
        }
        if is_undetermined {
            self.touched.iter().for_each(|touched| self.store.reload_counters(&touched.collection));
            self.store.reload_log_counters();
        }
        let stamp = result?;
        settings.iter().for_each(|version| self.store.client.note_settings(*version));
        let changed = self.touched.iter().map(|touched| &touched.collection.namespace);
        self.store.logged(&self.logged, stamp, changed);
        for touched in &self.touched {
            let state = &touched.collection.state;
            state.add_to_counters(touched.count, touched.bytes);
            if touched.collection.options.capped {
                state.first_record.fetch_max(touched.first_record, Relaxed);
                state.arrivals.announce();
            }
        }
        for (index, bits) in &self.multikey {
            for (durable, bits) in index.multikey.durable.iter().zip(bits) {
                durable.fetch_or(*bits, AcqRel);
            }
        }
        Ok(stamp)
    }
}
