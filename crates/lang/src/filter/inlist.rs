//! The operand of `$in`: a sorted list of distinct values, and regular expressions.
//!
//! A lookup is a binary search in BSON order, so its cost is logarithmic in the number of values.

use std::cmp::Ordering;

use nagi_bson::{Value, ValueBuf, compare};
use nagi_error::Result;

use crate::collation::{self, Collation};
use crate::regex::Pattern;

/// Values and patterns. A value matches if it equals one of the values or matches one of the patterns.
#[derive(Debug, Clone, Default)]
pub struct InList {
    values: Vec<ValueBuf>,
    patterns: Vec<Pattern>,
    has_null: bool,
    collation: Option<&'static Collation>,
}

impl InList {
    /// Sorts the values and removes duplicates.
    pub fn new(values: Vec<ValueBuf>, patterns: Vec<Pattern>) -> InList {
        InList::collated(values, patterns, None)
    }

    /// Like [`InList::new`], but strings compare by the collation.
    pub fn collated(
        mut values: Vec<ValueBuf>,
        patterns: Vec<Pattern>,
        collation: Option<&'static Collation>,
    ) -> InList {
        values.sort_by(|a, b| order(a.value(), b.value(), collation));
        values.dedup_by(|a, b| order(a.value(), b.value(), collation).is_eq());
        let has_null = values.iter().any(|v| matches!(v.value(), Value::Null));
        InList { values, patterns, has_null, collation }
    }

    /// The values in BSON order.
    pub fn values(&self) -> &[ValueBuf] {
        &self.values
    }

    /// The collation of strings; without one, they compare by their bytes.
    pub fn collation(&self) -> Option<&'static Collation> {
        self.collation
    }

    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Returns true if null is among the values. A missing field then matches.
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.patterns.is_empty()
    }

    /// Returns true if the value equals one of the values or matches one of the patterns.
    ///
    /// # Errors
    /// An error of a pattern that takes too many steps.
    pub fn matches(&self, value: Value<'_>) -> Result<bool> {
        if value.is_missing() {
            return Ok(self.has_null);
        }
        let probe = |probe: &ValueBuf| order(probe.value(), value, self.collation);
        if self.values.binary_search_by(probe).is_ok() {
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

fn order(a: Value<'_>, b: Value<'_>, own: Option<&Collation>) -> Ordering {
    compare::class(a).cmp(&compare::class(b)).then_with(|| collation::values(a, b, own))
}
