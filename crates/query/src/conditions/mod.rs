//! Conditions that are derived from others: on the buckets of a time series.

pub(crate) mod buckets;
pub(crate) mod series_index;
