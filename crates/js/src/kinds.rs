//! The kinds of BSON values that JavaScript has no type for. `prelude.js` uses the same numbers.

pub(crate) const LONG: i32 = 1;
pub(crate) const INT: i32 = 2;
pub(crate) const DECIMAL: i32 = 3;
pub(crate) const OBJECT_ID: i32 = 4;
pub(crate) const TIMESTAMP: i32 = 5;
pub(crate) const BINARY: i32 = 6;
pub(crate) const MIN_KEY: i32 = 7;
pub(crate) const MAX_KEY: i32 = 8;
pub(crate) const DB_POINTER: i32 = 9;
pub(crate) const CODE: i32 = 10;
pub(crate) const DATE: i32 = 11;
pub(crate) const REGEX: i32 = 12;
