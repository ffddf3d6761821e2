//! Advice: which index a query needs, which of a collection's are of no use, how large a cache would have to be. No
//! access to data.
//!
//! ```text
//!   slow shapes (metrics::slow_shapes) -- query.rs --> filter and sort -- key.rs --> the index that each needs
//!       -- candidate.rs --> one index for as many of them as it can serve
//!   indexes of a collection -- useless.rs --> those that another one replaces, and those that no query used
//!   reads of a cache -- cache.rs --> the size that answers 99 % of them
//! ```
//!
//! The command `nagiAdvise` is the caller. It tries the indexes on a sample before it advises them, so what is said
//! here are proposals.

mod cache;
mod candidate;
mod key;
mod query;
mod text;
mod useless;

pub(crate) use cache::{CacheSize, TARGET, budget_with};
pub(crate) use candidate::{Candidate, merge, serves};
pub(crate) use key::{Key, Needed, needed};
pub(crate) use query::{Query, beginning, is_cut};
pub(crate) use useless::{Known, Useless, useless};
