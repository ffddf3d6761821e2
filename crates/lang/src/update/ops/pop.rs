//! `$pop`: removes the last (1) or the first (-1) element.

use nagi_bson::{Element, Value, ValueSlot, number, text};
use nagi_error::{Code, Result, bail, err};

use super::{At, Change, UpdateOp};
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const POP: UpdateOp =
    UpdateOp { name: "$pop", parse: |update, field, _| parse(update, field) };

fn parse(update: &mut Operators, field: Element<'_>) -> Result<()> {
    let (name, value) = (field.name(), field.value());
    let n = number::integer(value)
        .map_err(|reason| err!(Code::FAILED_TO_PARSE, "{}", reason.describe(name, value)))?;
    if !matches!(n, 1 | -1) {
        bail!(Code::FAILED_TO_PARSE, "$pop expects 1 or -1, found: {}", text::value_text(value));
    }
    update.add(&FieldPath::new(name), Change::Pop { first: n == -1 })
}

pub(super) fn apply(
    first: bool,
    old: Value<'_>,
    at: &At<'_, '_>,
    slot: ValueSlot<'_>,
) -> Result<()> {
    let array = match old {
        Value::Missing => return Ok(()),
        Value::Array(array) => array,
        other => bail!(
            Code::TYPE_MISMATCH,
            "Path '{}' contains an element of non-array type '{}'",
            at.path,
            other.kind().name()
        ),
    };
    let keep = array.count().saturating_sub(1);
    let skip = usize::from(first);
    slot.array(|out| array.iter().skip(skip).take(keep).for_each(|value| out.push(value)));
    Ok(())
}
