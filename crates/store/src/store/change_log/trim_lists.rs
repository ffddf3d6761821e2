//! Removes the oldest commits of a log of lists, with their entries. The beginning of the log is moved first, so a
//! reader whose commits are missing is told.

use std::time::Duration;

use nagi_error::Result;
use nagi_kv::{Read, Space};

use crate::{Store, engine_error::engine, node::log_keys};

/// A transaction removes so many keys.
const KEYS_MAX: usize = 1000;
/// A pass removes so many keys, so that other work of its thread is not late.
const PASS_KEYS_MAX: usize = 20_000;
/// The beginning of the log is moved by this much at least, or by this part of the time for which it lasts.
const STEP_SECONDS: u64 = 10;
const STEP_PART: u64 = 64;

impl Store {
    /// Removes commits that are older than the log lasts, where nodes list their commits; a thread of the store does it
    /// every few seconds. Returns true if there are more.
    ///
    /// # Errors
    /// 112 if another node does the same. Those of the engine.
    pub fn trim_lists(&self, lasts: Duration) -> Result<bool> {
        let Some(lists) = &self.lists else { return Ok(false) };
        let snapshot = self.snapshot()?;
        let reader = snapshot.reader();
        let status = lists.look(&reader)?;
        let Some(first) = status.first else { return Ok(false) };
        // By the stamps of the engine: the clock of this machine may be another one's.
        let begin = (status.horizon >> 32).saturating_sub(lasts.as_secs()) << 32;
        let step = (lasts.as_secs() / STEP_PART).max(STEP_SECONDS);
        if begin > first.saturating_add(step << 32) {
            self.begin_lists_at(begin)?;
            return Ok(true);
        }
        self.remove_lists(reader.read, first)
    }

    /// The log begins with this stamp from now on.
    fn begin_lists_at(&self, first: u64) -> Result<()> {
        let (key, value) = (log_keys::first_key(), log_keys::first_value(first));
        self.alone(&mut |txn| txn.put(Space::Counters, &key, &value).map_err(engine))
    }

    /// Removes lists before the beginning of the log.
    fn remove_lists(&self, read: &dyn Read, first: u64) -> Result<bool> {
        let range = log_keys::lists_from(0);
        let end = log_keys::lists_from(first).start;
        let mut cursor = read.cursor(Space::Changes, &range.start, &end).map_err(engine)?;
        let mut found = cursor.seek(&range.start).map_err(engine)?;
        let (mut keys, mut removed) = (Vec::new(), 0);
        while found && removed < PASS_KEYS_MAX {
            let mut commits = Vec::new();
            log_keys::read_list((cursor.key(), cursor.value()), &mut commits).map_err(engine)?;
            for commit in commits {
                keys.extend((0..commit.parts).map(|part| commit.key(part).to_vec()));
            }
            // The last one: if a removal ends in the middle, the next one finds the list.
            keys.push(cursor.key().to_vec());
            found = cursor.next().map_err(engine)?;
            if keys.len() >= KEYS_MAX || !found {
                removed += keys.len();
                for some in keys.chunks(KEYS_MAX) {
                    self.remove_keys(some)?;
                }
                keys.clear();
            }
        }
        Ok(found)
    }

    fn remove_keys(&self, keys: &[Vec<u8>]) -> Result<()> {
        self.alone(&mut |txn| {
            keys.iter().try_for_each(|key| txn.delete(Space::Changes, key)).map_err(engine)
        })
    }
}
