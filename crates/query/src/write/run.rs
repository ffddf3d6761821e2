//! What the statements that change documents share: their collection, what filter and update are evaluated in, and
//! the attempts of an upsert.

use std::sync::Arc;

use nagi_error::{Code, Error, Result};
use nagi_lang::expr::Vars;
use nagi_store::{Collection, Namespace, Store, WriteTxn};

use super::{How, Selection, target, with_txn};
use crate::source::Env;

/// Times an upsert begins again after somebody else inserted its key.
const UPSERT_RETRIES: u32 = 3;

/// A parsed statement on its collection.
pub(super) struct Run<'r> {
    pub(super) store: &'r Store,
    pub(super) collection: Arc<Collection>,
    pub(super) selection: &'r Selection<'r>,
    pub(super) vars: &'r Vars<'r>,
    pub(super) how: How,
    pub(super) env: &'r Env<'r>,
}

/// Runs a statement on its collection, which an upsert creates; without a collection there is nothing to do.
///
/// # Errors
/// 166 for a view, those of creating a collection, those of `statement`.
pub(super) fn on_collection<T: Default>(
    (store, env): (&Store, &Env<'_>),
    (namespace, upsert): (&Namespace, bool),
    selection: &Selection<'_>,
    how: How,
    statement: impl FnOnce(&Run<'_>) -> Result<T>,
) -> Result<T> {
    let mut collection = target(store, namespace)?;
    if collection.is_none() && upsert {
        collection = Some(store.collection_or_create(namespace)?);
    }
    let Some(collection) = collection else { return Ok(T::default()) };
    let values = selection.lets.values();
    let vars = Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
    statement(&Run { store, collection, selection, vars: &vars, how, env })
}

impl Run<'_> {
    /// Runs a transaction of the statement.
    pub(super) fn with_txn<T>(
        &self,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        with_txn(self.store, self.how, self.env, f)
    }

    /// Whether an upsert that failed begins again: somebody else inserted the document meanwhile, and it matches now.
    /// `tries` counts how often it has.
    pub(super) fn begins_again(&self, error: &Error, tries: &mut u32) -> Result<bool> {
        if error.code() != Code::DUPLICATE_KEY || *tries == UPSERT_RETRIES {
            return Ok(false);
        }
        *tries += 1;
        Ok(!self.all()?.is_empty())
    }

    /// Shows what an update did, above the stages that found the documents.
    pub(super) fn show_update(&self, matched: u64, modified: u64, upserted: u64) {
        let counts =
            [("nMatched", matched), ("nWouldModify", modified), ("nWouldUpsert", upserted)];
        self.env.top_stages("UPDATE", &counts);
    }

    /// The same for a delete.
    pub(super) fn show_delete(&self, deleted: u64) {
        self.env.top_stages("DELETE", &[("nWouldDelete", deleted)]);
    }
}
