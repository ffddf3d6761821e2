//! The queue of writers that retry, over an engine that finds conflicts only at the commit.
//!
//! There, an engine has no holders of keys to wait for: of the writers of one record, each reads it, one commits, and
//! the others have to repeat their work. So a writer that has lost waits here, before its next attempt, for its turn at
//! the record that it wrote first. Writers of this node then follow each other; those of other nodes still conflict.
//!
//! ```text
//!   A, B, C   read r, write r, commit       A commits; B and C conflict
//!   B, C      queue for r                   B: read r, write r, commit     then C
//! ```
//!
//! First attempts do not queue, so that writers without conflicts pay nothing.

use std::time::Duration;

use nagi_kv::{
    Active, Claimer, Conflicts, KeyHash, Space,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A writer that had no turn in this time tries without.
const WAIT: Duration = Duration::from_secs(2);

/// See the module's header.
pub(crate) struct Queue {
    table: Conflicts,
    active: Active,
    writers: AtomicU64,
}

/// A writer's turn at a record; dropping it lets the next one in.
pub(crate) struct Turn<'q> {
    queue: &'q Queue,
    key: KeyHash,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue { table: Conflicts::new(), active: Active::new(0), writers: AtomicU64::new(0) }
    }

    /// Waits for the turn at a record, at most two seconds, and while `go_on` returns true. None if it did not come.
    pub(crate) fn turn(
        &self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Turn<'_>> {
        self.turn_within(WAIT, (space, key), go_on)
    }

    fn turn_within(
        &self,
        wait: Duration,
        (space, key): (Space, &[u8]),
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Turn<'_>> {
        let owner = self.writers.fetch_add(1, Relaxed) + 1;
        let claimer = Claimer { owner, read_stamp: u64::MAX, wait };
        let key = self.table.hash(space, key);
        self.table.claim_while(key, &claimer, &self.active, go_on).ok()?;
        Some(Turn { queue: self, key })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queue.table.release(&[self.key], None, true);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        thread,
    };

    use super::*;

    #[test]
    fn turns_follow_each_other_and_other_records_do_not_wait() {
        let queue = Queue::new();
        let go_on = &mut || true;
        let first = queue.turn(Space::Records, b"r", go_on).expect("free");
        assert!(queue.turn(Space::Records, b"other", go_on).is_some());
        let late = queue.turn_within(Duration::from_millis(1), (Space::Records, b"r"), go_on);
        assert!(late.is_none(), "it goes on without");
        assert!(queue.turn(Space::Records, b"r", &mut || false).is_none(), "it was interrupted");
        let inside = AtomicUsize::new(1);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _turn = queue.turn(Space::Records, b"r", &mut || true).expect("in time");
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "one at a time");
                    inside.fetch_sub(1, SeqCst);
                });
            }
            inside.fetch_sub(1, SeqCst);
            drop(first);
        });
        assert_eq!(queue.table.entry_count(), 0);
    }
}
