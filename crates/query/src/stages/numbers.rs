//! Numbers in stage specifications.

use nagi_bson::Value;

/// The value as an integer. Doubles are truncated towards zero, decimals are rounded, huge ones saturate, and NaN
/// is the least integer.
pub(super) fn whole(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        Value::Double(n) if n.is_nan() => Some(i64::MIN),
        Value::Double(n) => Some(n as i64),
        Value::Decimal128(d) if d.is_nan() => Some(i64::MIN),
        Value::Decimal128(d) => Some(d.to_f64().round_ties_even() as i64),
        _ => None,
    }
}
