//! Borrowed views of BSON bytes: documents, arrays, values, and the validation that makes them safe to read.

pub(crate) mod array;
pub(crate) mod decimal;
pub(crate) mod doc;
pub(crate) mod error;
pub(crate) mod raw;
pub(crate) mod tag;
pub(crate) mod validate;
pub(crate) mod value;
