//! Advice on indexes: which index a query needs, and which of a collection's are of no use. No access to data.
//!
//! ```text
//!   slow shapes (metrics::slow_shapes) -- query.rs --> filter and sort -- key.rs --> the index that each needs
//!       -- candidate.rs --> one index for as many of them as it can serve
//!   indexes of a collection -- useless.rs --> those that another one replaces, and those that no query used
//! ```
//!
//! The command `nagiAdvise` is the caller. It tries the indexes on a sample before it advises them, so what is said
//! here are proposals.

mod candidate;
mod key;
mod query;
mod useless;

pub(crate) use candidate::{Candidate, merge, serves};
pub(crate) use key::{Key, Needed, needed};
pub(crate) use query::Query;
pub(crate) use useless::{Known, Useless, useless};
