//! Plans: how the documents of one collection are found, ordered and shaped.
//!
//!   FindSpec (filter, sort, projection, ...) -> candidates -> choice -> Node tree -> open -> Source
//!
//! A [`Node`] tree is immutable; explain prints it, `open` turns it into sources. Each leaf of the
//! filter either became exact index bounds or is tested again on the fetched document, so any plan
//! returns what a collection scan with filter and sort returns.
//!
//!   access.rs      which indexes a filter can use, with which bounds
//!   interval.rs    sets of values; bounds.rs: predicate -> intervals
//!   known_bounds.rs  what `$expr` says of a path -> intervals
//!   express.rs     point reads, which need no choice
//!   key_filter.rs  conditions that are tested on index keys
//!   order.rs       whether a scan yields the order asked for
//!   intersect.rs   several indexes at once
//!   choose.rs      candidates, and the trial that decides between them
//!   cache/         what trials found, by the shape of queries; index filters
//!   hint.rs        hint, min, max
//!   text.rs        searches in a text index

mod access;
mod bounds;
mod build;
mod cache;
mod choose;
pub(crate) mod describe;
mod distinct;
mod explode;
mod express;
pub(crate) mod find;
mod geo;
mod hint;
mod intersect;
mod key_filter;
mod known_bounds;
mod node;
mod noted;
mod open;
mod order;
mod text;
mod usable;

pub(crate) use build::{FindSpec, nearest, nothing, pick, plan};
pub(crate) use cache::{Entry as CacheEntry, PlanCache, Shape, hex, short};
pub use cache::{
    PlanCacheFigures, ShapeRequest, clear_index_filters, clear_plans, list_index_filters,
    plan_cache_figures, set_index_filter,
};
pub(crate) use distinct::distinct_scan;
pub use hint::Hint;
pub(crate) use node::{Node, Plan, Planned};
pub(crate) use open::{Opener, open};

use crate::access::{GeoNearSpec, IndexAccess, MetaSource};
