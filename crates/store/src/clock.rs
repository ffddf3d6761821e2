//! The external inputs of a store besides bytes: time and randomness.

use std::{
    hash::{BuildHasher, RandomState},
    time::{SystemTime, UNIX_EPOCH},
};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// 64 random bits from the operating system, through the standard hasher's keys.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(now_ms())
}
