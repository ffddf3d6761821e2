//! A cursor of the key-value contract. All of it is `unsafe`, so the code is in `raw.rs`.

mod raw;
mod scan;

pub(crate) use raw::{LAST_KEY, RocksCursor};
