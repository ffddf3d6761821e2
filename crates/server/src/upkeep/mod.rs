//! Background work: expiry, compaction, the mirror of views, shutdown.

pub(crate) mod compaction;
pub(crate) mod ending;
pub(crate) mod jobs;
pub(crate) mod pace;
pub(crate) mod shared_settings;
pub(crate) mod views_collection;
