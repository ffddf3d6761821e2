//! Trigonometric functions. Results are doubles, or decimals for decimal arguments. Values outside of a function's
//! domain are errors; NaN is accepted.
use super::prelude::*;
use super::round::real;

/// A row for a function with the domain from `$low` to `$high`.
macro_rules! trig {
    ($name:literal, $double:path, $decimal:path, $low:expr, $high:expr) => {
        unary($name, |_, args| {
            in_domain($name, args[0], $low, $high)?;
            if let Some(zero) = odd_at_zero($name, args[0]) {
                return Ok(zero);
            }
            real($name, args[0], $double, $decimal)
        })
    };
}

const INF: f64 = f64::INFINITY;
/// The upper limit of domains that exclude infinity.
const BIG: f64 = f64::MAX;

pub(super) static OPS: &[Operator] = &[
    trig!("$acos", f64::acos, Decimal128::acos, -1.0, 1.0),
    trig!("$acosh", f64::acosh, Decimal128::acosh, 1.0, INF),
    trig!("$asin", f64::asin, Decimal128::asin, -1.0, 1.0),
    trig!("$asinh", f64::asinh, Decimal128::asinh, -INF, INF),
    trig!("$atan", f64::atan, Decimal128::atan, -INF, INF),
    row("$atan2", Args::Exactly(2), atan2),
    trig!("$atanh", f64::atanh, Decimal128::atanh, -1.0, 1.0),
    trig!("$cos", f64::cos, Decimal128::cos, -BIG, BIG),
    trig!("$cosh", f64::cosh, Decimal128::cosh, -INF, INF),
    unary("$degreesToRadians", |_, args| {
        let decimal = |n: Decimal128| n.mul(pi()).div(Decimal128::from_i64(180));
        if let Some(zero) = odd_at_zero("$degreesToRadians", args[0]) {
            return Ok(zero);
        }
        real("$degreesToRadians", args[0], |n| n * (std::f64::consts::PI / 180.0), decimal)
    }),
    unary("$radiansToDegrees", |_, args| {
        let decimal = |n: Decimal128| n.mul(Decimal128::from_i64(180)).div(pi());
        if let Some(zero) = odd_at_zero("$radiansToDegrees", args[0]) {
            return Ok(zero);
        }
        real("$radiansToDegrees", args[0], |n| n * (180.0 / std::f64::consts::PI), decimal)
    }),
    trig!("$sin", f64::sin, Decimal128::sin, -BIG, BIG),
    trig!("$sinh", f64::sinh, Decimal128::sinh, -INF, INF),
    trig!("$tan", f64::tan, Decimal128::tan, -BIG, BIG),
    trig!("$tanh", f64::tanh, Decimal128::tanh, -INF, INF),
];

fn pi() -> Decimal128 {
    Decimal128::parse("3.141592653589793238462643383279503").expect("34 digits")
}

/// The result for a decimal zero of the functions that are zero at zero: exactly zero, with the argument's exponent.
fn odd_at_zero<'a>(name: &str, value: Value<'a>) -> Option<Value<'a>> {
    let odd = !matches!(name, "$acos" | "$acosh" | "$cos" | "$cosh");
    (odd && matches!(value, Value::Decimal128(n) if n.is_zero())).then_some(value)
}

fn in_domain(name: &str, value: Value<'_>, low: f64, high: f64) -> Result<()> {
    match number::as_f64(value) {
        Some(n) if n < low || n > high => {
            let (open, close) =
                if high == BIG { ("(-inf", "inf)".into()) } else { ("[", format!("{high}]")) };
            let range = if high == BIG {
                format!("{open},{close}")
            } else {
                format!("{open}{low},{close}")
            };
            bail!(Code::Location(50989), "cannot apply {name} to {value}, value must be in {range}")
        }
        _ => Ok(()),
    }
}

fn atan2<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (y, x) = (args[0], args[1]);
    if y.is_nullish() || x.is_nullish() {
        return Ok(Value::Null);
    }
    for (value, code) in [(y, 51044), (x, 51045)] {
        if !value.is_number() {
            bail!(
                Code::Location(code),
                "$atan2 only supports numeric types, not {}",
                type_name(value)
            );
        }
    }
    if let (Value::Decimal128(_), _) | (_, Value::Decimal128(_)) = (y, x) {
        let decimal = |v| number::as_decimal(v).unwrap_or(Decimal128::NAN);
        return Ok(Value::Decimal128(decimal(y).atan2(decimal(x))));
    }
    let double = |v| number::as_f64(v).unwrap_or(f64::NAN);
    Ok(Value::Double(double(y).atan2(double(x))))
}
