//! Functions of one number: `$abs`, `$ceil`, `$exp`, `$floor`, `$ln`, `$log10`, `$round`, `$sqrt`, `$trunc`, ...
//!
//! All of them return null for null and keep the type of the argument if it can hold the result.
use super::prelude::*;

pub(super) static OPS: &[Operator] = &[
    unary("$abs", abs),
    unary("$ceil", |_, args| whole("$ceil", args[0], f64::ceil, Decimal128::ceil)),
    unary("$exp", |_, args| real("$exp", args[0], f64::exp, Decimal128::exp)),
    unary("$floor", |_, args| whole("$floor", args[0], f64::floor, Decimal128::floor)),
    unary("$ln", |_, args| {
        positive("$ln", 28766, args[0])?;
        logarithm("$ln", args[0], f64::ln, Decimal128::ln)
    }),
    unary("$log10", |_, args| {
        positive("$log10", 28761, args[0])?;
        logarithm("$log10", args[0], f64::log10, Decimal128::log10)
    }),
    row("$round", Args::Between(1, 2), |_, args| to_place("$round", args, Decimal128::round)),
    unary("$sigmoid", |_, args| {
        let e = |n: Decimal128| Decimal128::ONE.div(Decimal128::ONE.add(n.neg().exp()));
        real("$sigmoid", args[0], |n| 1.0 / (1.0 + (-n).exp()), e)
    }),
    unary("$sqrt", sqrt),
    row("$trunc", Args::Between(1, 2), |_, args| to_place("$trunc", args, Decimal128::trunc_to)),
];

/// The error of an operator that accepts only numbers.
pub(super) fn not_numeric(name: &str, value: Value<'_>) -> Error {
    err!(Code::Location(28765), "{name} only supports numeric types, not {}", type_name(value))
}

fn abs<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args[0] {
        Value::Int32(n) => n.checked_abs().map_or(Value::Int64(-i64::from(n)), Value::Int32),
        Value::Int64(n) => match n.checked_abs() {
            Some(n) => Value::Int64(n),
            None => bail!(Code::Location(28680), "can't take $abs of long long min"),
        },
        Value::Double(n) => Value::Double(n.abs()),
        Value::Decimal128(n) => Value::Decimal128(n.abs()),
        other => return Err(not_numeric("$abs", other)),
    })
}

/// Applies a function that does not change integers.
fn whole<'a>(
    name: &str,
    value: Value<'a>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Value<'a>> {
    match value {
        Value::Int32(_) | Value::Int64(_) => Ok(value),
        Value::Double(n) => Ok(Value::Double(double(n))),
        Value::Decimal128(n) => Ok(Value::Decimal128(decimal(n))),
        other => Err(not_numeric(name, other)),
    }
}

/// Applies a function whose result is a double, or a decimal for a decimal argument.
pub(super) fn real<'a>(
    name: &str,
    value: Value<'a>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Value<'a>> {
    match (value, number::as_f64(value)) {
        (Value::Decimal128(n), _) => Ok(Value::Decimal128(decimal(n))),
        (_, Some(n)) => Ok(Value::Double(double(n))),
        (other, None) => Err(not_numeric(name, other)),
    }
}

/// Like [`real`], but the result for NaN of any type is a double. Only positive decimals have decimal logarithms.
fn logarithm<'a>(
    name: &str,
    value: Value<'a>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Value<'a>> {
    if number::is_nan(value) {
        return Ok(Value::Double(f64::NAN));
    }
    real(name, value, double, decimal)
}

fn positive(name: &str, code: i32, value: Value<'_>) -> Result<()> {
    let bad = value.is_number()
        && !number::is_nan(value)
        && number::compare(value, Value::Int32(0)).is_le();
    if bad {
        bail!(Code::Location(code), "{name}'s argument must be a positive number, but is {value}");
    }
    Ok(())
}

fn sqrt<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let value = args[0];
    let negative = value.is_number()
        && !number::is_nan(value)
        && number::compare(value, Value::Int32(0)).is_lt();
    if negative {
        bail!(Code::Location(28714), "$sqrt's argument must be greater than or equal to 0");
    }
    real("$sqrt", value, f64::sqrt, Decimal128::sqrt)
}

/// Rounds or truncates at a decimal place (default 0). Integers change only at negative places.
fn to_place<'a>(
    name: &str,
    args: &[Value<'a>],
    round: fn(Decimal128, i32) -> Decimal128,
) -> Result<Value<'a>> {
    let place = args.get(1).copied().unwrap_or(Value::Int32(0));
    if args[0].is_nullish() || place.is_nullish() {
        return Ok(Value::Null);
    }
    if !args[0].is_number() {
        // `$trunc` with one argument has the error code of the older operators such as `$ceil`.
        let code = if name == "$trunc" && args.len() == 1 { 28765 } else { 51081 };
        bail!(
            Code::Location(code),
            "{name} only supports numeric types, not {}",
            type_name(args[0])
        );
    }
    let place = self::place(name, place)?;
    Ok(match args[0] {
        Value::Int32(n) if place >= 0 => Value::Int32(n),
        Value::Int64(n) if place >= 0 => Value::Int64(n),
        Value::Double(n) if !n.is_finite() => Value::Double(n),
        Value::Double(n) if place == 0 && name == "$trunc" => Value::Double(n.trunc()),
        Value::Double(n) if place == 0 => Value::Double(n.round_ties_even()),
        Value::Double(n) => {
            let rounded = round(Decimal128::from_f64_exact(n), place).to_f64();
            Value::Double(if rounded == 0.0 { 0.0_f64.copysign(n) } else { rounded })
        }
        Value::Decimal128(n) if n.is_finite() => Value::Decimal128(round(n, place)),
        Value::Int32(n) => match round(Decimal128::from_i64(i64::from(n)), place).to_i64() {
            Some(n) => super::arith::int_or_long(n),
            None => return Err(out_of_range(name, args)),
        },
        Value::Int64(n) => match round(Decimal128::from_i64(n), place).to_i64() {
            Some(n) => Value::Int64(n),
            None => return Err(out_of_range(name, args)),
        },
        other => other,
    })
}

fn out_of_range(name: &str, args: &[Value<'_>]) -> Error {
    err!(
        Code::Location(51080),
        "invalid conversion from Decimal128 result in {name} resulting from arguments: [{}, {}]",
        args[0],
        args.get(1).copied().unwrap_or(Value::Int32(0))
    )
}

fn place(name: &str, value: Value<'_>) -> Result<i32> {
    let Some(place) = number::as_i64_exact(value) else {
        bail!(
            Code::Location(51082),
            "precision argument to  {name} must be a integral value, found: {value}"
        );
    };
    match i32::try_from(place) {
        Ok(place) if (-20..=100).contains(&place) => Ok(place),
        _ => bail!(
            Code::Location(51083),
            "cannot apply {name} with precision value {place} value must be in [-20, 100]"
        ),
    }
}
