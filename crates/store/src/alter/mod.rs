//! Statements that change a collection that exists: collMod, rename, convertToCapped.

pub(crate) mod capped;
pub(crate) mod collmod;
pub(crate) mod rename;
