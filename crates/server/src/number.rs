//! Conversion of numbers in arguments.

use nagi_bson::{Value, number};

/// Any number as int64, rounded toward zero, saturating; `None` if it is no number.
pub(crate) fn truncate(value: Value<'_>) -> Option<i64> {
    value.is_number().then(|| number::truncate_to_i64(value)).flatten()
}
