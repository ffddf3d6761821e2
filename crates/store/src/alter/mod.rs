//! Statements that change an existing collection: collMod, rename, convertToCapped.

pub(crate) mod capped;
pub(crate) mod collmod;
pub(crate) mod rename;
