//! Conditions that are derived from others: on the buckets of a time series.

pub(crate) mod bucket_ids;
pub(crate) mod buckets;
mod ranges;
pub(crate) mod series_index;
