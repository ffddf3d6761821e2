//! The operand of `$in`: values, sorted and without duplicates, and regular expressions.
//!
//! A lookup is a binary search in BSON order, logarithmic in the number of values.

use std::cmp::Ordering;

use nagi_bson::{Value, ValueBuf, compare};
use nagi_error::Result;

use crate::regex::Pattern;

/// Values and patterns of which one must match.
#[derive(Debug, Clone, Default)]
pub struct InList {
    values: Vec<ValueBuf>,
    patterns: Vec<Pattern>,
    has_null: bool,
}

impl InList {
    /// Sorts the values and drops duplicates.
    pub fn new(mut values: Vec<ValueBuf>, patterns: Vec<Pattern>) -> InList {
        values.sort_by(|a, b| order(a.value(), b.value()));
        values.dedup_by(|a, b| order(a.value(), b.value()).is_eq());
        let has_null = values.iter().any(|v| matches!(v.value(), Value::Null));
        InList { values, patterns, has_null }
    }

    /// The values in BSON order.
    pub fn values(&self) -> &[ValueBuf] {
        &self.values
    }

    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether null is among the values (and so a missing field matches).
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.patterns.is_empty()
    }

    /// Whether a value equals one of the values or matches one of the patterns.
    ///
    /// # Errors
    /// A pattern that needs too many steps.
    pub fn matches(&self, value: Value<'_>) -> Result<bool> {
        if value.is_missing() {
            return Ok(self.has_null);
        }
        if self.values.binary_search_by(|probe| order(probe.value(), value)).is_ok() {
            return Ok(true);
        }
        for pattern in &self.patterns {
            if super::pred::regex_matches(pattern, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn order(a: Value<'_>, b: Value<'_>) -> Ordering {
    compare::class(a).cmp(&compare::class(b)).then_with(|| compare::values(a, b))
}
