//! `$pullAll`: removes the elements that equal one of the given values.

use nagi_bson::{Element, Value, ValueBuf, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::value_set::ValueSet;
use super::{Change, UpdateOp};
use crate::collation::Collation;
use crate::expr::ParseCx;
use crate::memory::check_array;
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const PULL_ALL: UpdateOp = UpdateOp { name: "$pullAll", parse };

fn parse(update: &mut Operators, field: Element<'_>, cx: &mut ParseCx<'_>) -> Result<()> {
    let Value::Array(values) = field.value() else {
        bail!(
            Code::BAD_VALUE,
            "$pullAll requires an array argument but was given a {}",
            field.value().kind().name()
        );
    };
    check_array(values)?;
    let values = values.iter().map(ValueBuf::new).collect();
    update.add(
        &FieldPath::new(field.name()),
        Change::PullAll(PullAll { values, collation: cx.collation() }),
    )
}

/// The values to remove.
#[derive(Debug)]
pub(crate) struct PullAll {
    values: Vec<ValueBuf>,
    collation: Option<&'static Collation>,
}

pub(super) fn apply(all: &PullAll, old: Value<'_>, slot: ValueSlot<'_>) -> Result<()> {
    let array = match old {
        Value::Missing => return Ok(()),
        Value::Array(array) => array,
        _ => bail!(Code::BAD_VALUE, "Cannot apply $pull to a non-array value"),
    };
    let gone = ValueSet::of(all.values.iter().map(ValueBuf::value), all.collation);
    slot.array(|out| {
        for element in array.iter() {
            if !gone.contains(element) {
                out.push(element);
            }
        }
    });
    Ok(())
}
