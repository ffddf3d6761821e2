//! The full check of a collection: records against index keys against counters.

/// What `validate` found.
#[derive(Clone, Debug, Default)]
pub struct ValidateReport {
    pub record_count: i64,
    pub data_bytes: i64,
    /// Name and number of keys.
    pub index_keys: Vec<(Box<str>, i64)>,
    /// What is wrong; empty if the collection is valid.
    pub errors: Vec<String>,
}
