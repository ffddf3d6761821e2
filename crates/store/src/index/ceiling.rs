//! The ceiling of an index: the greatest key it ever had. A greater key cannot be a duplicate, so it need not be
//! looked up.
//!
//! Most collections get ascending `_id`s, and the unsuccessful look-up was the most expensive part of an insert
//! apart from the engine's own work.
//!
//! ```text
//!   ceiling 41    insert 42   greater: no look-up, ceiling 42
//!                 insert 42   not greater: looked up, duplicate key
//!                 delete 42   the ceiling stays 42
//!                 insert 42   not greater: looked up, not found, inserted
//! ```
//!
//! The ceiling is kept in memory, for an index that was complete when it was created. Every key that is put, in any
//! transaction, passes through `rise`: after the transaction has claimed the key, and before it puts it. The order
//! matters: of two transactions with the same key, the later one gets the claim when the earlier one has finished,
//! and then finds the ceiling raised. The first call asks the engine for the last key, because no key was put since
//! the start. The ceiling never falls, so keys that were rolled back or removed cost a look-up but no error. It is
//! not used over an engine that finds conflicts only at the commit, where the later transaction does not wait for the
//! claim.

use nagi_error::Result;
use nagi_kv::sync::Mutex;

/// Number of significant bytes of a key. Keys with equal prefixes are looked up.
const PREFIX_BYTES_MAX: usize = 64;

/// See the module's header. An `_id` index has one.
#[derive(Debug, Default)]
pub(crate) struct Ceiling(Mutex<Option<Vec<u8>>>);

impl Ceiling {
    /// The ceiling of an index that is being created, which need not ask the engine. That would be expensive after
    /// a drop, because the search next to a dropped range skips the entries of the range.
    pub(crate) fn of_nothing() -> Ceiling {
        Ceiling(Mutex::new(Some(Vec::new())))
    }

    /// Raises the ceiling to a key that is claimed and about to be put. Returns true if no key as great was ever
    /// put, so that it cannot exist. `last` returns the greatest committed key, or an empty one if there is none;
    /// it is called once.
    pub(crate) fn rise(&self, key: &[u8], last: impl FnOnce() -> Result<Vec<u8>>) -> Result<bool> {
        let key = prefix(key);
        nagi_percore::note_shared("greatest key of an index", 1, 2);
        let mut ceiling = self.0.lock();
        let highest = match &mut *ceiling {
            Some(highest) => highest,
            none => {
                let mut last = last()?;
                last.truncate(PREFIX_BYTES_MAX);
                none.insert(last)
            }
        };
        let rises = key > highest.as_slice();
        if rises {
            highest.clear();
            highest.extend_from_slice(key);
        }
        Ok(rises)
    }
}

fn prefix(key: &[u8]) -> &[u8] {
    &key[..key.len().min(PREFIX_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::{Ceiling, PREFIX_BYTES_MAX};

    #[test]
    fn only_what_lies_above_every_key_before_is_new() {
        let ceiling = Ceiling::default();
        let rise = |key: &[u8]| ceiling.rise(key, || Ok(vec![5])).unwrap();
        assert!(!rise(&[5]), "the engine has it");
        assert!(rise(&[5, 0]), "longer is greater");
        assert!(!rise(&[5, 0]) && !rise(&[3]) && rise(&[9]) && !rise(&[7]));
    }

    #[test]
    fn long_keys_that_begin_alike_are_looked_up() {
        let ceiling = Ceiling::default();
        let key = |last: u8| [&[7; PREFIX_BYTES_MAX][..], &[last]].concat();
        let rise = |key: &[u8]| ceiling.rise(key, || Ok(Vec::new())).unwrap();
        assert!(rise(&key(1)));
        assert!(!rise(&key(2)) && !rise(&key(1)));
        assert!(rise(&[8]));
    }

    #[test]
    fn a_new_index_is_not_looked_at() {
        let ceiling = Ceiling::of_nothing();
        let rise = |key: &[u8]| ceiling.rise(key, || panic!("nothing is there")).unwrap();
        assert!(rise(&[5]) && !rise(&[5]) && rise(&[6]));
    }

    #[test]
    fn a_failed_look_at_the_engine_is_made_again() {
        let ceiling = Ceiling::default();
        let failed = ceiling.rise(&[1], || nagi_error::bail!(nagi_error::Code::BAD_VALUE, "disk"));
        assert!(failed.is_err());
        assert!(!ceiling.rise(&[1], || Ok(vec![1])).unwrap());
    }
}
