//! Commits: the hook for changes (`change`), the client that makes them (`client`), its waits for the engine
//! (`waits`), the time in which the files are held (`held`), and the stamps that order their visibility (`stamps`).

pub(crate) mod change;
pub(crate) mod client;
pub(crate) mod held;
pub(crate) mod stamps;
pub(crate) mod waits;

pub use change::{Change, ChangeLog, EditKind, Joins, Replaced};
pub use client::{CatalogChange, Client, Statement, Waits};
pub use stamps::{Stamp, Written};
