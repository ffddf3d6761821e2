//! Access paths as values: the part of an index that is read, and the filter that is tested on its keys.
//!
//! The planner builds them, sources read through them, explain prints them.

pub(crate) mod geo;
mod index;
pub(crate) mod interval;
mod settings;

pub(crate) use geo::{GeoNearAccess, GeoNearSpec, Shown};
pub(crate) use index::{IndexAccess, KeyFilter, MetaSource, TextAccess};
pub(crate) use interval::{Interval, Intervals};
pub use settings::QuerySettings;
pub(crate) use settings::{Allowed, AllowedIndexes, same_pattern};
