//! Checking and repairing: validate, reIndex, quarantined records, and reading a damaged data directory.

pub(crate) mod quarantine;
pub(crate) mod reindex;
pub(crate) mod repeats;
pub(crate) mod salvage;
pub(crate) mod validate;
