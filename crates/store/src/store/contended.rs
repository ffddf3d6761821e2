//! Who begins again after a conflict: in turn where many write one record, else after a short wait.
//!
//! A transaction that reads a record and then finds that somebody else is writing it begins again. With many
//! at one record somebody would lose every time; so the next attempt first asks for the record, before
//! it reads anything, and stands in line for it (nagi_kv::conflict). What it then reads no one changes.

use std::time::Duration;

use nagi_error::{Code, Result};
use nagi_kv::{Space, Txn, TxnOptions, sync::thread};

use crate::{WriteOptions, clock, engine_error::engine, record_key::StorageKey};

/// Attempts in which a transaction only lines up; after that it waits, too: several records in different
/// orders may make a few transactions get in each other's way for long.
const LINED_UP_MAX: u32 = 8;

/// A record that a transaction could not have.
#[derive(Clone)]
pub(crate) struct Contended {
    space: Space,
    key: StorageKey,
}

impl Contended {
    pub(crate) fn new(space: Space, key: StorageKey) -> Contended {
        Contended { space, key }
    }

    /// A line before a key moves on as fast as transactions commit: who stands in it may wait longer
    /// than others, and looks every few milliseconds whether anybody wants the result.
    pub(crate) fn options(contended: Option<&Contended>) -> TxnOptions {
        match contended {
            Some(_) => TxnOptions { lock_wait_ms: 50 },
            None => TxnOptions::default(),
        }
    }

    /// Has the key before anything is read, so that no one changes it between reading and writing.
    /// WriteConflict if it is not to be had in time; at once if `options` say that the write is over.
    pub(crate) fn lock(&self, txn: &mut dyn Txn, options: &WriteOptions<'_>) -> Result<()> {
        let mut go_on = || options.interrupt.is_none_or(|interrupt| interrupt().is_ok());
        txn.lock_while(self.space, &self.key, &mut go_on).map_err(engine)
    }
}

/// Repeats `attempt` after conflicts. It gets its number, and the record that the attempt before it could
/// not have, which it asks for before it reads anything.
pub(crate) fn until_done<T>(
    options: &WriteOptions<'_>,
    mut attempt: impl FnMut(u32, &mut Option<Contended>) -> Result<T>,
) -> Result<T> {
    let (mut number, mut contended) = (0, None);
    loop {
        match attempt(number, &mut contended) {
            Err(error) if error.code() == Code::WRITE_CONFLICT => {
                if let Some(interrupt) = options.interrupt {
                    interrupt()?;
                }
                if contended.is_none() || number > LINED_UP_MAX {
                    back_off(number);
                }
                number += 1;
            }
            other => return other,
        }
    }
}

/// A short wait that grows: conflicts are settled in microseconds, but a crowd needs spreading. Never
/// as long as 10 ms: no one is asked meanwhile whether the write is to continue.
fn back_off(attempt: u32) {
    match attempt {
        0..4 => thread::yield_now(),
        _ => {
            let longest_us = 50u64 << attempt.min(7);
            thread::sleep(Duration::from_micros(1 + clock::random() % longest_us));
        }
    }
}
