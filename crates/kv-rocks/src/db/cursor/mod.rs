//! The iterator. All of it is `unsafe`, so the code is in `raw.rs`.

mod raw;

pub(crate) use raw::RocksCursor;
