//! Commits: the door for changes (`change`), on whose behalf they are made (`client`), and when they are visible
//! (`stamps`).

pub(crate) mod change;
pub(crate) mod client;
pub(crate) mod stamps;

pub use change::{Change, ChangeLog};
pub use client::{Client, Statement};
pub use stamps::{Stamp, Written};
