//! Commits: the hook for changes (`change`), the client that makes them (`client`), and the stamps that order their
//! visibility (`stamps`).

pub(crate) mod change;
pub(crate) mod client;
pub(crate) mod stamps;

pub use change::{Change, ChangeLog, EditKind, Joins, Replaced};
pub use client::{CatalogChange, Client, Statement};
pub use stamps::{Stamp, Written};
