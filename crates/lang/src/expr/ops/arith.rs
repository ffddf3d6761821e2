//! Arithmetic on two or more numbers: `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, `$pow`, `$log`.
//!
//! The result has the widest argument type (int < long < double < decimal). An int result that does not fit becomes a
//! long, a long becomes a double; no result wraps around. Arguments are checked from left to right: a null gives
//! null, and another value that is not a number is an error, whichever comes first.
use super::prelude::*;
use crate::accum::NumberSum;

pub(super) static OPS: &[Operator] = &[
    row("$add", Args::Any, add),
    row("$divide", Args::Exactly(2), divide),
    row("$log", Args::Exactly(2), log),
    row("$mod", Args::Exactly(2), modulo),
    row("$multiply", Args::Any, multiply),
    row("$pow", Args::Exactly(2), pow),
    row("$subtract", Args::Exactly(2), subtract),
];

fn add<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut sum = NumberSum::default();
    let mut has_date = false;
    for arg in args {
        match *arg {
            Value::DateTime(_) if has_date => {
                bail!(Code::Location(16612), "only one date allowed in an $add expression")
            }
            Value::DateTime(ms) => {
                has_date = true;
                sum.add_integer(ms);
            }
            value if value.is_nullish() => return Ok(Value::Null),
            value if sum.add(value) => {}
            other => bail!(
                Code::Location(16554),
                "$add only supports numeric or date types, not {}",
                type_name(other)
            ),
        }
    }
    if !has_date {
        return Ok(sum.value());
    }
    match rounded(sum.value()) {
        Some(ms) => Ok(Value::DateTime(ms)),
        None => bail!(Code::OVERFLOW, "date overflow in $add"),
    }
}

/// Converts to int64: a double is truncated, a decimal rounded to even; none for NaN and out-of-range values.
fn rounded(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Double(n) => number::f64_as_i64_exact(n.trunc()),
        Value::Decimal128(n) => n.round_integral().to_i64(),
        other => number::as_i64_exact(other),
    }
}

fn subtract<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = (args[0], args[1]);
    if a.is_number() && b.is_number() {
        return Ok(number::subtract(a, b));
    }
    if a.is_nullish() || b.is_nullish() {
        return Ok(Value::Null);
    }
    match (a, b) {
        (Value::DateTime(a), Value::DateTime(b)) => match a.checked_sub(b) {
            Some(ms) => Ok(Value::Int64(ms)),
            None => bail!(
                Code::DURATION_OVERFLOW,
                "Overflow casting from a lower-precision \
                duration to a higher-precision duration"
            ),
        },
        (Value::DateTime(a), b) if b.is_number() => {
            let ms = rounded(b).unwrap_or(i64::MIN);
            if ms == i64::MIN {
                bail!(Code::DURATION_OVERFLOW, "Cannot negate the minimum duration");
            }
            match a.checked_sub(ms) {
                Some(date) => Ok(Value::DateTime(date)),
                None => bail!(Code::OVERFLOW, "date overflow in $subtract"),
            }
        }
        (Value::DateTime(_), b) => {
            bail!(Code::Location(16613), "can't $subtract {} from Date", type_name(b))
        }
        _ => bail!(Code::Location(16556), "can't $subtract {} from {}", type_name(b), type_name(a)),
    }
}

fn multiply<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    // The product so far in each type. When an argument needs a wider type, the product continues in that type.
    let mut widest = Value::Int32(0);
    let (mut long, mut double, mut decimal) = (1i64, 1.0f64, Decimal128::ONE);
    for arg in args {
        let value = *arg;
        match value {
            _ if value.is_nullish() => return Ok(Value::Null),
            _ if !value.is_number() => bail!(
                Code::Location(16555),
                "$multiply only supports numeric types, not {}",
                type_name(value)
            ),
            _ => {}
        }
        let was = widest;
        if rank(value) > rank(widest) {
            widest = value;
        }
        if let Value::Decimal128(_) = widest {
            decimal = match was {
                Value::Decimal128(_) => decimal,
                Value::Double(_) => Decimal128::from_f64(double),
                _ => Decimal128::from_i64(long),
            };
            decimal = decimal.mul(number::as_decimal(value).unwrap_or(Decimal128::NAN));
            continue;
        }
        double *= number::as_f64(value).unwrap_or(f64::NAN);
        if let Value::Int32(_) | Value::Int64(_) = widest {
            match long.checked_mul(number::as_i64_exact(value).unwrap_or(0)) {
                Some(product) => long = product,
                None => widest = Value::Double(0.0),
            }
        }
    }
    Ok(match widest {
        Value::Decimal128(_) => Value::Decimal128(decimal),
        Value::Double(_) => Value::Double(double),
        Value::Int64(_) => Value::Int64(long),
        _ => int_or_long(long),
    })
}

fn rank(value: Value<'_>) -> u8 {
    match value {
        Value::Int32(_) => 0,
        Value::Int64(_) => 1,
        Value::Double(_) => 2,
        _ => 3,
    }
}

/// An int if the number fits, otherwise a long.
pub(super) fn int_or_long<'a>(n: i64) -> Value<'a> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

/// Returns true if both arguments are numbers and false if one is null; other types are an error.
fn numeric_pair<'a>(name: &str, code: i32, args: &[Value<'a>]) -> Result<bool> {
    let (a, b) = (args[0], args[1]);
    if a.is_number() && b.is_number() {
        return Ok(true);
    }
    if a.is_nullish() || b.is_nullish() {
        return Ok(false);
    }
    bail!(
        Code::Location(code),
        "{name} only supports numeric types, not {} and {}",
        type_name(a),
        type_name(b)
    )
}

/// Both numbers as decimals, if either is a decimal.
fn decimals(a: Value<'_>, b: Value<'_>) -> Option<(Decimal128, Decimal128)> {
    match (a, b) {
        (Value::Decimal128(_), _) | (_, Value::Decimal128(_)) => {
            Some((number::as_decimal(a)?, number::as_decimal(b)?))
        }
        _ => None,
    }
}

fn doubles(a: Value<'_>, b: Value<'_>) -> (f64, f64) {
    (number::as_f64(a).unwrap_or(f64::NAN), number::as_f64(b).unwrap_or(f64::NAN))
}

fn divide<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    if !numeric_pair("$divide", 16609, args)? {
        return Ok(Value::Null);
    }
    let zero = || err!(Code::BAD_VALUE, "can't $divide by zero");
    if let Some((a, b)) = decimals(args[0], args[1]) {
        return if b.is_zero() { Err(zero()) } else { Ok(Value::Decimal128(a.div(b))) };
    }
    let (a, b) = doubles(args[0], args[1]);
    if b == 0.0 { Err(zero()) } else { Ok(Value::Double(a / b)) }
}

fn modulo<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    if !numeric_pair("$mod", 16611, args)? {
        return Ok(Value::Null);
    }
    let zero = || err!(Code::Location(16610), "can't $mod by zero");
    if let Some((a, b)) = decimals(args[0], args[1]) {
        return if b.is_zero() { Err(zero()) } else { Ok(Value::Decimal128(a.rem(b))) };
    }
    let (a, b) = doubles(args[0], args[1]);
    if b == 0.0 {
        return Err(zero());
    }
    // A divisor of type double whose value is an int is treated as an integer, unless the dividend is a double.
    let whole = match args[1] {
        Value::Double(n) => f64::from(n as i32) == n,
        _ => true,
    };
    if matches!(args[0], Value::Double(_)) || !whole {
        return Ok(Value::Double(a % b));
    }
    let (long_a, long_b) = (
        number::truncate_to_i64(args[0]).unwrap_or(0),
        number::truncate_to_i64(args[1]).unwrap_or(1),
    );
    let rest = long_a.checked_rem(long_b).unwrap_or(0);
    let long = matches!(args[0], Value::Int64(_)) || matches!(args[1], Value::Int64(_));
    Ok(if long { Value::Int64(rest) } else { int_or_long(rest) })
}

fn pow<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (base, exponent) = (args[0], args[1]);
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::Null);
    }
    if !base.is_number() {
        bail!(Code::Location(28762), "$pow's base must be numeric, not {}", type_name(base));
    }
    if !exponent.is_number() {
        bail!(
            Code::Location(28763),
            "$pow's exponent must be numeric, not {}",
            type_name(exponent)
        );
    }
    let (base_double, exponent_double) = doubles(base, exponent);
    let zero_base = number::compare(base, Value::Int32(0)).is_eq();
    if zero_base && number::compare(exponent, Value::Int32(0)).is_lt() && !exponent_double.is_nan()
    {
        bail!(Code::Location(28764), "$pow cannot take a base of 0 and a negative exponent");
    }
    if let Some((base, exponent)) = decimals(base, exponent) {
        return Ok(Value::Decimal128(base.pow(exponent).with_all_digits()));
    }
    let (Some(whole), Some(times)) = (integer(base), integer(exponent)) else {
        return Ok(Value::Double(libm_pow(base_double, exponent_double)));
    };
    let long = matches!(base, Value::Int64(_)) || matches!(exponent, Value::Int64(_));
    let result = match whole {
        1 => Some(1),
        -1 => Some(if times % 2 == 0 { 1 } else { -1 }),
        _ => u32::try_from(times).ok().and_then(|times| whole.checked_pow(times)),
    };
    Ok(match result {
        Some(n) if long => Value::Int64(n),
        Some(n) => int_or_long(n),
        None => Value::Double(libm_pow(base_double, exponent_double)),
    })
}

fn libm_pow(base: f64, exponent: f64) -> f64 {
    base.powf(exponent)
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        _ => None,
    }
}

fn log<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (arg, base) = (args[0], args[1]);
    if arg.is_nullish() || base.is_nullish() {
        return Ok(Value::Null);
    }
    if !arg.is_number() {
        bail!(Code::Location(28756), "$log's argument must be numeric, not {}", type_name(arg));
    }
    if !base.is_number() {
        bail!(Code::Location(28757), "$log's base must be numeric, not {}", type_name(base));
    }
    let zero = Value::Int32(0);
    if !number::is_nan(arg) && number::compare(arg, zero).is_le() {
        bail!(Code::Location(28758), "$log's argument must be a positive number, but is {arg}");
    }
    let one = number::compare(base, Value::Int32(1)).is_eq();
    if !number::is_nan(base) && (number::compare(base, zero).is_le() || one) {
        bail!(
            Code::Location(28759),
            "$log's base must be a positive number not equal to 1, but is {base}"
        );
    }
    if number::is_nan(arg) || number::is_nan(base) {
        return Ok(Value::Double(f64::NAN));
    }
    if let Some((arg, base)) = decimals(arg, base) {
        return Ok(Value::Decimal128(arg.ln().div(base.ln())));
    }
    let (arg, base) = doubles(arg, base);
    Ok(Value::Double(arg.ln() / base.ln()))
}
