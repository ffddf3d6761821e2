//! Statements that change an existing collection: collMod, rename, convertToCapped, the replacement of a time series,
//! spreading over a cluster.

pub(crate) mod capped;
pub(crate) mod collmod;
pub(crate) mod rename;
mod replace_series;
pub(crate) mod spread;
pub(crate) mod target;
