//! Settings that administrators change at run time: parameters, cluster parameters, query settings, default
//! concerns, the write block.

pub(crate) mod about;
pub(crate) mod cluster_params;
pub(crate) mod identity_providers;
pub(crate) mod index_filters;
pub(crate) mod params;
pub(crate) mod persisted;
pub(crate) mod query_settings;
pub(crate) mod rw_defaults;
pub(crate) mod write_block;
