//! The iterator. All of it is `unsafe`, so it is in `raw.rs`.

mod raw;

pub(crate) use raw::RocksCursor;
