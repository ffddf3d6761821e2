//! Parsing of `$densify`: `{field, partitionByFields, range: {step, unit, bounds}}`.

use nagi_bson::{Array, ValueBuf, compare, number};
use nagi_lang::{
    expr::{ExprPath, parse_field_path},
    time::Unit,
};

use super::{
    PipelineCx,
    densify::{Plan, Range},
    prelude::*,
};

/// Parses the specification.
///
/// # Errors
/// 9, 14, 40414, 40415 for the shape; 5733401-5733410, 5876900, 5946800, 5946802, 6586400, 8993000, 9554500.
pub(super) fn parse(spec: Value<'_>, cx: &PipelineCx<'_>) -> Result<Plan> {
    let Value::Doc(spec) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "The $densify stage specification must be an object, found {}",
            spec.kind().name()
        );
    };
    let (mut field, mut partition, mut range) = (None, Vec::new(), None);
    for element in spec {
        match (element.name(), element.value()) {
            ("field", Value::String(path)) => field = Some(parse_field_path(path)?),
            ("field", other) => return Err(wrong_type("field", other, "string")),
            ("partitionByFields", Value::Array(fields)) => partition = paths(fields)?,
            ("partitionByFields", other) => {
                return Err(wrong_type("partitionByFields", other, "array"));
            }
            ("range", Value::Doc(doc)) => range = Some(doc),
            ("range", other) => return Err(wrong_type("range", other, "object")),
            (name, _) => return Err(unknown(name)),
        }
    }
    let field = field.ok_or_else(|| missing("field"))?;
    let range = range.ok_or_else(|| missing("range"))?;
    partition.iter().try_for_each(|path| check_partition(path, &field))?;
    let (mut step, mut unit, mut bounds) = (None, None, None);
    for element in range {
        match (element.name(), element.value()) {
            ("step", value) if value.is_number() => step = Some(value),
            ("step", other) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '$densify.range.step' is the wrong type '{}', expected types '[int, \
                 decimal, double, long']",
                other.kind().name()
            ),
            ("unit", Value::String(name)) => match Unit::parse(name) {
                Some(parsed) => unit = Some(parsed),
                None => bail!(Code::FAILED_TO_PARSE, "unknown time unit value: {name}"),
            },
            ("unit", other) => return Err(wrong_type("range.unit", other, "string")),
            ("bounds", value) => bounds = Some(value),
            (name, _) => return Err(unknown(&format!("range.{name}"))),
        }
    }
    let step = step.ok_or_else(|| missing("range.step"))?;
    let bounds = bounds.ok_or_else(|| missing("range.bounds"))?;
    if !number::compare(step, Value::Int32(0)).is_gt() {
        bail!(
            Code::Location(5_733_401),
            "The step parameter in a range statement must be a strictly positive numeric value"
        );
    }
    if unit.is_some() && number::as_i64_exact(step).is_none() {
        bail!(
            Code::Location(6_586_400),
            "The step parameter in a range statement must be a whole number when densifying a date \
             range"
        );
    }
    let range = self::range(bounds, step, unit, &partition)?;
    Ok(Plan {
        field,
        partition,
        step: ValueBuf::new(step),
        unit,
        range,
        collation: cx.collation,
        docs_max: cx.options.densify_docs_max,
    })
}

fn wrong_type(name: &str, value: Value<'_>, expected: &str) -> nagi_error::Error {
    nagi_error::err!(
        Code::TYPE_MISMATCH,
        "BSON field '$densify.{name}' is the wrong type '{}', expected type '{expected}'",
        value.kind().name()
    )
}

fn missing(name: &str) -> nagi_error::Error {
    nagi_error::err!(
        Code::Location(40414),
        "BSON field '$densify.{name}' is missing but a required field"
    )
}

fn unknown(name: &str) -> nagi_error::Error {
    nagi_error::err!(Code::Location(40415), "BSON field '$densify.{name}' is an unknown field.")
}

fn paths(fields: Array<'_>) -> Result<Vec<ExprPath>> {
    let path = |(at, value): (usize, Value<'_>)| match value {
        Value::String(path) => parse_field_path(path),
        other => Err(wrong_type(&format!("partitionByFields.{at}"), other, "string")),
    };
    fields.iter().enumerate().map(path).collect()
}

/// Checks that the field and a partition's field are not within each other.
fn check_partition(path: &ExprPath, field: &ExprPath) -> Result<()> {
    if path.parts().starts_with(field.parts()) {
        bail!(
            Code::Location(8_993_000),
            "BSON field '$densify.partitionByFields' contains the field that is being densified"
        );
    }
    if field.parts().starts_with(path.parts()) {
        bail!(
            Code::Location(9_554_500),
            "The field that is being densified contains the BSON field '$densify.partitionByFields'"
        );
    }
    Ok(())
}

/// Parses `bounds` into a range.
fn range(
    bounds: Value<'_>,
    step: Value<'_>,
    unit: Option<Unit>,
    partition: &[ExprPath],
) -> Result<Range> {
    let pair = match bounds {
        Value::String("full") => return Ok(Range::Full),
        Value::String("partition") if partition.is_empty() => bail!(
            Code::Location(5_733_408),
            "one may not specify the bounds as 'partition' without specifying a non-empty array of \
             partitionByFields. You may have meant to specify 'full' bounds."
        ),
        Value::String("partition") => return Ok(Range::Partition),
        Value::String(_) => {
            bail!(Code::Location(5_946_802), "Bounds string must either be 'full' or 'partition'")
        }
        Value::Array(pair) => pair,
        _ => bail!(
            Code::Location(5_733_404),
            "The bounds in a range statement must be the string 'full', 'partition', or an \
             ascending array of two numbers or two dates"
        ),
    };
    if pair.count() != 2 {
        bail!(
            Code::Location(5_733_403),
            "A bounding array in a range statement must have exactly two elements"
        );
    }
    let (lower, upper) = (pair.get(0), pair.get(1));
    check_bounds(lower, upper, step, unit)?;
    Ok(Range::Between(ValueBuf::new(lower), ValueBuf::new(upper)))
}

fn check_bounds(
    lower: Value<'_>,
    upper: Value<'_>,
    step: Value<'_>,
    unit: Option<Unit>,
) -> Result<()> {
    const MIXED: &str = "A bounding array must contain either both dates or both numeric types";
    if compare::values(lower, upper).is_gt() {
        bail!(
            Code::Location(5_733_402),
            "A bounding array must be an ascending array of either two dates or two numbers"
        );
    }
    match (lower, upper) {
        (Value::DateTime(_), Value::DateTime(_)) if unit.is_some() => Ok(()),
        (Value::DateTime(_), Value::DateTime(_)) => {
            bail!(Code::Location(5_733_410), "A bounding array of dates must specify a unit")
        }
        (Value::DateTime(_), _) => bail!(Code::Location(5_733_405), "{MIXED}"),
        (lower, _) if !lower.is_number() => {
            bail!(Code::Location(5_946_800), "Explicit bounds must be numeric or dates")
        }
        _ if unit.is_some() => {
            bail!(Code::Location(5_733_409), "Numeric bounds may not have unit parameter")
        }
        (_, upper) if !upper.is_number() => bail!(Code::Location(5_733_406), "{MIXED}"),
        (lower, upper) if [lower.kind(), upper.kind()].iter().any(|k| *k != step.kind()) => bail!(
            Code::Location(5_876_900),
            "Upper bound, lower bound, and step must all have the same type"
        ),
        _ => Ok(()),
    }
}
