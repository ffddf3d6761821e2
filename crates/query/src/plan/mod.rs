//! The planner: how the documents of one collection are found, ordered and shaped.
//!
//! ```text
//!   FindSpec (filter, sort, projection, ...) -> candidates -> choice -> Node tree -> open -> Source
//!               build.rs                        access.rs     choose.rs  node.rs     open.rs
//! ```
//!
//! A [`Node`] tree is immutable; explain prints it, and `open` turns it into sources.
//!
//! # Steps
//!
//! 1. **Special cases.** A lookup by `_id`, an equality on a unique index (`express.rs`), text and nearness
//!    searches, and hints have only one plan.
//! 2. **Candidates** (`build::candidates`). For each usable index the filter's conjuncts are assigned to the fields
//!    of the key pattern (`access.rs`). An index without bounds is a candidate if it yields the sort order. Unions
//!    for `$or` and index intersections are candidates, too. The collection scan is one only if there is no other.
//! 3. **Bounds.** Each predicate on an indexed path becomes a set of intervals (`bounds.rs`). Bounds are complete:
//!    no match lies outside. If they are also exact, the predicate is decided; otherwise it is tested again, on the
//!    keys (`key_filter.rs`) or on the fetched document.
//! 4. **Cache** (`cache/`). If the query's shape has an active entry, that candidate runs alone, with a limit of
//!    work.
//! 5. **Trial** (`choose.rs`). Otherwise all candidates run on the real data with equal budgets, and the one that
//!    delivers a first batch at the lowest cost wins. Its results are kept, and its identity is stored in the
//!    cache.
//!
//! # Example
//!
//! A collection of 100,000 people has the indexes `{city: 1}`, `{age: 1}` and `{city: 1, age: 1}`; 5,000 people
//! live in Rome. The query is `find({city: "Rome", age: {$gte: 30}}).sort({age: 1})`.
//!
//! ```text
//!   conjuncts   city = "Rome"   bounds ["Rome", "Rome"]   exact
//!               age >= 30       bounds [30, inf]          exact
//!
//!   candidates  A  {city, age}  Rome; [30, inf]    no residual filter, entries are in the order of age:
//!                               IXSCAN -> FETCH
//!               B  {city}       Rome               residual age >= 30 and a blocking sort:
//!                               IXSCAN -> FETCH(age >= 30) -> SORT
//!               C  {age}        [30, inf]          in order, residual city = "Rome":
//!                               IXSCAN -> FETCH(city = "Rome")
//!
//!   trial       budget 256 entries (keys and documents) for each candidate
//!               A  101 results after 202 entries   done
//!               B  0 results: the sort needs all of its input first
//!               C  about 6 results after 256 entries
//!               A wins. Its 101 results are returned without reading them again.
//!
//!   cache       shape {city: =, age: >=} sort {age: 1} -> A, 202 works, inactive
//!
//!   next query  city = "Oslo", age >= 50: same shape, entry inactive, a trial again. A needs 150 <= 202 works, so the
//!               entry becomes active with 150 works.
//!   after that  A runs without a trial, within 10 x 150 = 1500 entries. If it needs more for its first batch, the
//!               entry becomes inactive and a trial decides.
//! ```
//!
//! # Invariants
//!
//! - Any plan returns what a collection scan with filter and sort returns: each conjunct of the filter is either
//!   decided by exact bounds or tested again.
//! - A cached choice never affects the result, only the cost.
//!
//! # Files
//!
//! - `build.rs`: the steps above; sort, skip, limit and projection above the access path
//! - `access.rs`, `bounds.rs`, `known_bounds.rs` (facts from `$expr`), `usable.rs` (sparse and partial indexes):
//!   index assignment; `interval.rs` in `crate::access`: sets of values
//! - `order.rs`, `explode.rs`: scans that yield the sort order
//! - `intersect.rs`, `distinct.rs`, `express.rs`, `geo.rs`, `text.rs`, `hint.rs`: particular plans
//! - `choose.rs`, `cache/`: trial and plan cache; index filters
//! - `node.rs`, `open.rs`, `describe.rs`, `execution_stats.rs`: the plan, its sources, explain, statistics
//!
//! Read more: docs/decisions/005 (trials) and 032 (a cached plan is a choice).

mod access;
mod bounds;
mod build;
mod cache;
mod choose;
pub(crate) mod describe;
mod distinct;
mod execution_stats;
mod explode;
mod express;
pub(crate) mod find;
mod geo;
mod hint;
mod intersect;
mod key_filter;
mod known_bounds;
mod node;
mod open;
mod order;
mod still_there;
mod text;
mod usable;

pub(crate) use build::{FindSpec, can_pick, nearest, nothing, pick, plan};
pub(crate) use cache::{Entry as CacheEntry, PlanCache, Shape, hex, is_computed, short};
pub use cache::{
    ShapeRequest, clear_index_filters, clear_plans, index_filter_document, index_filter_ids,
    install_index_filters, is_index_filter_of_none, list_index_filters, set_index_filter,
};
pub(crate) use distinct::distinct_scan;
pub use hint::Hint;
pub(crate) use node::{Node, Plan, Planned};
pub(crate) use open::{Opener, open};
pub(crate) use still_there::{check_still_there, reads};

use crate::access::{GeoNearSpec, IndexAccess, MetaSource};
