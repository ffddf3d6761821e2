//! Access paths as values: which part of which index is read, and what is tested on its keys.
//!
//! The planner makes them, sources read by them, explain prints them.

pub(crate) mod geo;
mod index;
pub(crate) mod interval;
mod settings;

pub(crate) use geo::{GeoNearAccess, GeoNearSpec, Shown};
pub(crate) use index::{IndexAccess, KeyFilter, MetaSource, TextAccess};
pub(crate) use interval::{Interval, Intervals};
pub use settings::QuerySettings;
pub(crate) use settings::{Allowed, AllowedIndexes, same_pattern};
