//! Small transactions of the store itself, beside the one that needs their result: blocks of idents and record numbers.

use nagi_error::{Code, Result};
use nagi_kv::{Durability, Txn, TxnOptions};

use super::{Store, contended::back_off};
use crate::engine_error::{UNDETERMINED, engine};

/// Attempts against other nodes; each conflict means that another one was successful.
const ATTEMPTS: u32 = 50;

impl Store {
    /// Runs `f` in a transaction of its own, and commits it. Repeats it after a conflict, and after a commit whose
    /// outcome is unknown: what that one has taken is lost if it took effect.
    ///
    /// # Errors
    /// 112 if it had conflicts again and again: the caller's transaction may be repeated. Those of `f` and of the
    /// engine.
    pub(crate) fn alone<T>(&self, f: &mut dyn FnMut(&mut dyn Txn) -> Result<T>) -> Result<T> {
        for attempt in 0..ATTEMPTS {
            let mut txn = self.engine.begin(TxnOptions::default()).map_err(engine)?;
            let done = f(&mut *txn).and_then(|value| {
                self.commit(txn, Durability::Synced)?;
                Ok(value)
            });
            match done {
                Err(error) if [Code::WRITE_CONFLICT, UNDETERMINED].contains(&error.code()) => {
                    back_off(attempt);
                }
                other => return other,
            }
        }
        Err(engine(nagi_kv::Error::Conflict))
    }
}
