//! The two things a store takes from outside besides bytes: the time and chance.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// A timestamp that this process has not used before: the seconds of the time and a number within the second.
pub fn next_timestamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = (now_ms() / 1000).cast_unsigned() << 32 | 1;
    let next = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
    now.max(last + 1)
}

/// 64 random bits: the operating system's, through the standard hasher's keys.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(now_ms())
}
