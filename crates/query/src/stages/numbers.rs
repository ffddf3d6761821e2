//! Numbers in stage specifications.

use nagi_bson::Value;

/// The value as a whole number; doubles and decimals are cut towards zero, huge ones saturate.
pub(super) fn whole(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        Value::Double(n) => Some(n as i64),
        Value::Decimal128(d) => Some(d.to_f64() as i64),
        _ => None,
    }
}
