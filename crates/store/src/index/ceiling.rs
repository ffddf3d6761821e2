//! The greatest key an index ever had: whoever brings a greater one need not look whether it is there.
//!
//! Most collections get their `_id`s in rising order, and the look-up that finds nothing was the
//! largest thing that an insert did beyond what the engine does.
//!
//! Kept in memory, for an index that was whole when it came into being; every key that is put passes
//! through `rise`, in whatever transaction, after the transaction has claimed it and before it is put.
//! The order matters: of two that bring one key, the later one gets the claim when the earlier one has
//! ended, and then finds the ceiling raised. The first one asks the engine for the
//! last key there is: nothing else was put since the start. Nothing lowers the ceiling, so keys that
//! were reverted or removed cost a look-up, never an error. One process writes a data directory; an
//! engine that several write must not use it.

use nagi_error::Result;
use nagi_kv::sync::Mutex;

/// Bytes of a key that count. Keys that agree in them are looked up.
const PREFIX_BYTES_MAX: usize = 64;

/// See the module. An `_id` index has one.
#[derive(Debug, Default)]
pub(crate) struct Ceiling(Mutex<Option<Vec<u8>>>);

impl Ceiling {
    /// Of an index that came into being this moment: there is nothing to ask the engine for. To ask is
    /// dear after a drop: the place next to a dropped range is found by stepping over what was in it.
    pub(crate) fn of_nothing() -> Ceiling {
        Ceiling(Mutex::new(Some(Vec::new())))
    }

    /// Notes a key that is claimed and about to be put; true if no key as great was ever put, so that it cannot
    /// be there. `last` is the greatest committed key, empty if there is none; asked for once.
    pub(crate) fn rise(&self, key: &[u8], last: impl FnOnce() -> Result<Vec<u8>>) -> Result<bool> {
        let key = prefix(key);
        nagi_percore::note_shared("greatest key of an index", 2);
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
