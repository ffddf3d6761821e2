//! `$addToSet`: appends the values that the array does not yet contain.

use nagi_bson::{Element, Value, ValueBuf, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::value_set::ValueSet;
use super::{At, Change, UpdateOp};
use crate::collation::Collation;
use crate::expr::ParseCx;
use crate::memory::check_array;
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const ADD_TO_SET: UpdateOp = UpdateOp { name: "$addToSet", parse };

/// The values to add, without duplicates.
#[derive(Debug)]
pub(crate) struct AddToSet {
    values: Vec<ValueBuf>,
    collation: Option<&'static Collation>,
}

fn parse(update: &mut Operators, field: Element<'_>, cx: &mut ParseCx<'_>) -> Result<()> {
    let mut values = Vec::new();
    match field.value() {
        Value::Doc(doc) if doc.first().is_some_and(|e| e.name() == "$each") => {
            let Value::Array(each) = doc.get("$each") else {
                bail!(
                    Code::TYPE_MISMATCH,
                    "The argument to $each in $addToSet must be an array but it was of type {}",
                    doc.get("$each").kind().name()
                );
            };
            if doc.count() > 1 {
                bail!(Code::BAD_VALUE, "Found unexpected fields after $each in $addToSet: {doc}");
            }
            check_array(each)?;
            let mut seen = ValueSet::new(cx.collation());
            values.extend(each.iter().filter(|v| seen.insert(*v)).map(ValueBuf::new));
        }
        value => values.push(ValueBuf::new(value)),
    }
    update.add(
        &FieldPath::new(field.name()),
        Change::AddToSet(AddToSet { values, collation: cx.collation() }),
    )
}

impl AddToSet {
    /// The number of levels that the operand adds below its path.
    pub(super) fn depth(&self) -> usize {
        1 + self.values.iter().map(|v| v.value().depth()).max().unwrap_or(0)
    }

    pub(super) fn apply(&self, old: Value<'_>, at: &At<'_, '_>, slot: ValueSlot<'_>) -> Result<()> {
        let array = match old {
            Value::Missing => nagi_bson::Array::EMPTY,
            Value::Array(array) => array,
            other => bail!(
                Code::BAD_VALUE,
                "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
                at.field(),
                other.kind().name()
            ),
        };
        // First collect those of the new values that the array already contains, in one scan over the array.
        let wanted = ValueSet::of(self.values.iter().map(ValueBuf::value), self.collation);
        let held =
            ValueSet::of(array.iter().filter(|value| wanted.contains(*value)), self.collation);
        slot.array(|out| {
            array.elements().for_each(|element| out.push_element(element));
            let new =
                self.values.iter().map(ValueBuf::value).filter(|value| !held.contains(*value));
            new.for_each(|value| out.push(value));
        });
        Ok(())
    }
}
