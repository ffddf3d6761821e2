//! `$inc` and `$mul`.
//!
//! The result has the wider of the two types. An int32 result that does not fit becomes an int64; an int64 result
//! that does not fit is an error.

use nagi_bson::{Element, Value, ValueBuf, ValueSlot, compare, number, text};
use nagi_error::{Code, Result, bail};

use super::{At, Change, UpdateOp};
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const INC: UpdateOp =
    UpdateOp { name: "$inc", parse: |update, field, _| parse(update, field, false, "increment") };

pub(super) const MUL: UpdateOp =
    UpdateOp { name: "$mul", parse: |update, field, _| parse(update, field, true, "multiply") };

/// An addition or a multiplication.
#[derive(Debug)]
pub(crate) struct Arith {
    multiply: bool,
    operand: ValueBuf,
}

fn parse(update: &mut Operators, field: Element<'_>, multiply: bool, verb: &str) -> Result<()> {
    let (name, value) = (field.name(), field.value());
    if !value.is_number() {
        bail!(
            Code::TYPE_MISMATCH,
            "Cannot {verb} with non-numeric argument: {{{name}: {}}}",
            text::value_text(value)
        );
    }
    let arith = Arith { multiply, operand: ValueBuf::new(value) };
    update.add(&FieldPath::new(name), Change::Arith(arith))
}

impl Arith {
    fn name(&self) -> &'static str {
        if self.multiply { "$mul" } else { "$inc" }
    }

    /// Returns true if the result is NaN, which is not equal to any value, including itself.
    pub(super) fn gives_nan(&self, old: Value<'_>) -> bool {
        old.is_number() && self.of(old).is_some_and(number::is_nan)
    }

    fn of(&self, base: Value<'_>) -> Option<Value<'_>> {
        let operand = self.operand.value();
        if self.multiply {
            number::checked_mul(base, operand)
        } else {
            number::checked_add(base, operand)
        }
    }

    pub(super) fn apply(&self, old: Value<'_>, at: &At<'_, '_>, slot: ValueSlot<'_>) -> Result<()> {
        let operand = self.operand.value();
        let base = match old {
            Value::Missing if !self.multiply => {
                slot.put(operand);
                return Ok(());
            }
            Value::Missing => Value::Int32(0),
            old => old,
        };
        if !base.is_number() {
            bail!(
                Code::TYPE_MISMATCH,
                "Cannot apply {} to a value of non-numeric type. {{{}}} has the field '{}' of \
                 non-numeric type {}",
                self.name(),
                at.id(),
                at.field(),
                base.kind().name()
            );
        }
        let Some(result) = self.of(base) else {
            bail!(
                Code::BAD_VALUE,
                "Failed to apply {} operations to current value ({}) for document {{{}}}",
                self.name(),
                typed(base),
                at.id()
            );
        };
        slot.put(if is_same_number(old, result) { old } else { result });
        Ok(())
    }
}

/// Returns true if the result has the type of the old value and equals it. The old value is then kept: MongoDB
/// compares them as numbers, so neither the sign of a zero nor trailing zeros of a decimal change.
fn is_same_number(old: Value<'_>, result: Value<'_>) -> bool {
    old.kind() == result.kind() && !number::is_nan(result) && compare::values(old, result).is_eq()
}

/// A number with its type, in the form of this error message.
fn typed(value: Value<'_>) -> String {
    let kind = match value {
        Value::Int32(_) => "NumberInt",
        Value::Int64(_) => "NumberLong",
        Value::Double(_) => "NumberDouble",
        _ => "NumberDecimal",
    };
    format!("({kind}){}", text::value_text(value))
}
