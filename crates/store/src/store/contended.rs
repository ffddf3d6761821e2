//! Retries after write conflicts: in FIFO order for a contended record, otherwise after a short wait.
//!
//! A transaction that reads a record and then finds another transaction writing it must be retried. If many
//! transactions write one record, a retry could lose every time. So the retry locks the record before it reads
//! anything, waiting in the record's queue (nagi_kv::conflict); then no other transaction can change the record
//! between its read and its write.
//!
//!   attempt 0:  read r, write r  --> conflict on r
//!   attempt 1:  lock r (queue)  -->  read r, write r  -->  commit
//!
//! Over an engine that finds conflicts only at the commit, the record is the first one that the transaction wrote, and
//! the queue is the store's own (`queue.rs`).

use std::time::Duration;

use nagi_error::{Code, Result};
use nagi_kv::{Space, Txn, TxnOptions, sync::thread};

use super::conflict_waits::{ConflictWaits, Holder};
use crate::{
    WriteOptions, clock,
    engine_error::engine,
    record_key::StorageKey,
    store::{Shared, queue::Turn},
};

/// Attempts after which a transaction also waits, in addition to queueing: transactions that need several records
/// in different orders may conflict with each other for long.
const LINED_UP_MAX: u32 = 8;

/// A record, or another key such as that of a unique value, on which a transaction had a write conflict.
#[derive(Clone)]
pub(crate) struct Contended {
    space: Space,
    key: StorageKey,
}

impl Contended {
    pub(crate) fn new(space: Space, key: StorageKey) -> Contended {
        Contended { space, key }
    }

    /// A queued transaction may wait longer than others, because the queue moves as fast as transactions commit. It
    /// polls every few milliseconds if its result is still needed.
    pub(crate) fn options(contended: Option<&Contended>) -> TxnOptions {
        match contended {
            Some(_) => TxnOptions { lock_wait_ms: 50, ..TxnOptions::default() },
            None => TxnOptions::default(),
        }
    }

    /// Locks the record before anything is read, so that it cannot change between the read and the write. Fails
    /// with WriteConflict if the lock is not free in time; fails at once if the interrupt check of `options` fails.
    pub(crate) fn lock(
        &self,
        txn: &mut dyn Txn,
        options: &WriteOptions<'_>,
        waits: &ConflictWaits,
    ) -> Result<()> {
        let mut go_on = || options.interrupt.is_none_or(|interrupt| interrupt().is_ok());
        waits.begin(match txn.is_held_by_client(self.space, &self.key) {
            true => Holder::Transaction,
            false => Holder::Write,
        });
        txn.lock_while(self.space, &self.key, &mut go_on).map_err(engine)?;
        // After a failure the next attempt continues the same wait.
        waits.end();
        Ok(())
    }
}

impl Shared {
    /// Waits for the turn at a contended record, over an engine without a queue of its own; see `queue.rs`.
    pub(crate) fn turn(
        &self,
        contended: Option<&Contended>,
        options: &WriteOptions<'_>,
        waits: &ConflictWaits,
    ) -> Option<Turn<'_>> {
        let (queue, contended) = (self.queue.as_ref()?, contended?);
        // It ends with the lock of the record.
        waits.begin(Holder::Write);
        let mut go_on = || options.interrupt.is_none_or(|interrupt| interrupt().is_ok());
        queue.turn(contended.space, &contended.key, &mut go_on)
    }
}

/// Repeats `attempt` after conflicts. Its arguments are the number of the attempt and the record on which the
/// previous attempt had a conflict; the attempt locks that record before it reads anything.
pub(crate) fn until_done<T>(
    options: &WriteOptions<'_>,
    waits: &ConflictWaits,
    attempt: impl FnMut(u32, &mut Option<Contended>) -> Result<T>,
) -> Result<T> {
    let done = repeat(options, attempt);
    // The wait of an attempt that failed for another reason has no next attempt.
    waits.end();
    done
}

fn repeat<T>(
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

/// A short random wait that grows with the attempts: single conflicts resolve in microseconds, but many competing
/// transactions must be spread out. It stays below 10 ms, because there is no interrupt check during the wait.
pub(super) fn back_off(attempt: u32) {
    match attempt {
        0..4 => thread::yield_now(),
        _ => {
            let longest_us = 50u64 << attempt.min(7);
            thread::sleep(Duration::from_micros(1 + clock::random() % longest_us));
        }
    }
}
