//! `$substr`, `$substrBytes`, `$substrCP`: parts of strings, by bytes or by code points.
use super::array::int32;
use super::prelude::*;
use super::string::coerce;

pub(super) static OPS: &[Operator] = &[
    row("$substr", Args::Exactly(3), by_bytes),
    row("$substrBytes", Args::Exactly(3), by_bytes),
    row("$substrCP", Args::Exactly(3), by_code_points),
];

/// A number that is not a decimal, truncated to an integer.
fn byte_bound(value: Value<'_>, what: &str, code: i32) -> Result<i64> {
    match value {
        // NaN counts as the smallest integer, as in MongoDB.
        Value::Double(n) if n.is_nan() => Ok(i64::MIN),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) => {
            Ok(number::truncate_to_i64(value).unwrap_or(0))
        }
        other => bail!(
            Code::Location(code),
            "$substrBytes:  {what} must be a numeric type (is BSON type {})",
            type_name(other)
        ),
    }
}

fn by_bytes<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let text = coerce(cx, args[0])?;
    let start = byte_bound(args[1], "starting index", 16034)?;
    let length = byte_bound(args[2], "length", 16035)?;
    let Ok(start) = usize::try_from(start) else {
        bail!(
            Code::Location(50752),
            "$substrBytes:  starting index must be non-negative (got: {start})"
        );
    };
    let is_boundary = |at: usize| at >= text.len() || text.is_char_boundary(at);
    if !is_boundary(start) {
        bail!(
            Code::Location(28656),
            "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte."
        );
    }
    // A negative length means the rest of the string.
    let end = usize::try_from(length).map_or(text.len(), |length| start.saturating_add(length));
    if !is_boundary(end) {
        bail!(
            Code::Location(28657),
            "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character."
        );
    }
    let end = end.min(text.len());
    Ok(Value::String(text.get(start..end).unwrap_or("")))
}

fn code_point_bound(value: Value<'_>, what: &str, codes: [i32; 2]) -> Result<i32> {
    if !value.is_number() {
        bail!(
            Code::Location(codes[0]),
            "$substrCP: {what} must be a numeric type (is BSON type {})",
            type_name(value)
        );
    }
    match int32(value) {
        Some(n) => Ok(n),
        None => bail!(
            Code::Location(codes[1]),
            "$substrCP: {what} cannot be represented as a 32-bit integral value: {value}"
        ),
    }
}

fn by_code_points<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let text = coerce(cx, args[0])?;
    let start = code_point_bound(args[1], "starting index", [34450, 34451])?;
    let length = code_point_bound(args[2], "length", [34452, 34453])?;
    let Ok(length) = usize::try_from(length) else {
        bail!(Code::Location(34454), "$substrCP: length must be a nonnegative integer.");
    };
    let Ok(start) = usize::try_from(start) else {
        bail!(Code::Location(34455), "$substrCP: the starting index must be nonnegative integer.");
    };
    let mut places = text.char_indices().map(|(at, _)| at);
    let Some(from) = places.nth(start) else {
        return Ok(Value::String(""));
    };
    let to = text[from..].char_indices().nth(length).map_or(text.len(), |(at, _)| from + at);
    Ok(Value::String(&text[from..to]))
}
