//! The newest operations that took long, and whether they ran all that time or waited: see `observe::long`.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// The number of operations that are kept.
const KEPT_MAX: usize = 512;

/// What an operation can wait for, as the server knows itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The lock of `fsync`.
    Lock,
    /// A transaction of another client that holds a record which the operation needs.
    Transaction,
    /// A write outside of transactions that holds a record which the operation needs, until it is committed.
    Write,
    /// The storage engine, which has not taken the commit of the operation yet: its disk is slow.
    Disk,
}

impl Blocked {
    /// The number of values.
    pub const COUNT: usize = 4;
}

/// Operations that wait for the same now.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BlockedNow {
    /// How many they are.
    pub operations: u64,
    /// The longest wait.
    pub longest_us: u64,
}

/// An operation that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongOperation {
    /// Counts from 1, without gaps.
    pub number: u64,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// The name of its command.
    pub name: &'static str,
    /// At most 255 bytes each of database and collection.
    pub namespace: String,
    /// Neither a read nor a write of documents, as `opLatencies` counts them: such commands take long by nature.
    pub is_command: bool,
    /// Its time.
    pub micros: u64,
    /// The part of its time for which it worked, as far as that is known.
    pub own_micros: u64,
    /// What it waited for during half of its time or more.
    pub blocked: Option<Blocked>,
}

impl LongOperation {
    /// True if it took long because of what it did, not because the server or the machine kept it waiting.
    #[must_use]
    pub fn ran(&self) -> bool {
        self.blocked.is_none() && (self.is_command || self.own_micros >= self.micros / 2)
    }
}

#[derive(Default)]
struct Kept {
    list: VecDeque<LongOperation>,
    count: u64,
}

/// The newest long operations: at most 300 KB.
#[derive(Default)]
pub(crate) struct LongOperations(Mutex<Kept>);

impl LongOperations {
    /// Adds an operation, which gets the next number.
    pub(crate) fn add(&self, one: LongOperation) {
        let mut kept = self.0.lock();
        kept.count += 1;
        let number = kept.count;
        if kept.list.len() == KEPT_MAX {
            kept.list.pop_front();
        }
        kept.list.push_back(LongOperation { number, ..one });
    }

    /// Those after the one with this number, oldest first. Some are missing if there were too many.
    pub(crate) fn after(&self, number: u64) -> Vec<LongOperation> {
        let kept = self.0.lock();
        kept.list.iter().filter(|one| one.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(own_micros: u64, is_command: bool) -> LongOperation {
        LongOperation {
            number: 0,
            at_ms: 0,
            name: "find",
            namespace: "db.c".to_owned(),
            is_command,
            micros: 200_000,
            own_micros,
            blocked: None,
        }
    }

    #[test]
    fn half_of_the_time_decides() {
        assert!(long(100_000, false).ran() && long(0, true).ran());
        assert!(!long(99_999, false).ran());
        // A command that was kept waiting did not take long by nature.
        let blocked = LongOperation { blocked: Some(Blocked::Lock), ..long(0, true) };
        assert!(!blocked.ran());
    }

    #[test]
    fn their_number_is_bounded() {
        let all = LongOperations::default();
        for own in 0..2000 {
            all.add(long(own, false));
        }
        let list = all.after(0);
        assert_eq!((list.len(), list[0].number, list[511].own_micros), (KEPT_MAX, 1489, 1999));
        assert_eq!(all.after(1999).len(), 1);
        assert_eq!(all.after(2000).len(), 0);
    }
}
