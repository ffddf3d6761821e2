//! `$bit`: bitwise and, or, xor on integers.

use nagi_bson::{Element, Value, ValueBuf, ValueSlot, text};
use nagi_error::{Code, Result, bail};

use super::{At, Change, UpdateOp};
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const BIT: UpdateOp =
    UpdateOp { name: "$bit", parse: |update, field, _| parse(update, field) };

#[derive(Debug, Clone, Copy)]
enum Operation {
    And,
    Or,
    Xor,
}

/// The operations, in the order in which they are applied.
#[derive(Debug)]
pub(crate) struct Bit(Vec<(Operation, ValueBuf)>);

fn parse(update: &mut Operators, field: Element<'_>) -> Result<()> {
    let Value::Doc(spec) = field.value() else {
        bail!(
            Code::BAD_VALUE,
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
             {{$bit: {{field: {{and/or/xor: #}}}}",
            field.value().kind().name()
        );
    };
    let mut operations = Vec::new();
    for element in spec {
        let (name, value) = (element.name(), element.value());
        let shown = || format!("{{{name}: {}}}", text::value_text(value));
        let operation = match name {
            "and" => Operation::And,
            "or" => Operation::Or,
            "xor" => Operation::Xor,
            _ => bail!(
                Code::BAD_VALUE,
                "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an \
                 unknown operator: {}",
                shown()
            ),
        };
        if !matches!(value, Value::Int32(_) | Value::Int64(_)) {
            bail!(
                Code::BAD_VALUE,
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported \
                 here: {}",
                value.kind().name(),
                shown()
            );
        }
        operations.push((operation, ValueBuf::new(value)));
    }
    if operations.is_empty() {
        bail!(
            Code::BAD_VALUE,
            "You must pass in at least one bitwise operation. The format is: {{$bit: {{field: \
             {{and/or/xor: #}}}}"
        );
    }
    update.add(&FieldPath::new(field.name()), Change::Bit(Bit(operations)))
}

impl Bit {
    pub(super) fn apply(&self, old: Value<'_>, at: &At<'_, '_>, slot: ValueSlot<'_>) -> Result<()> {
        let mut value = match old {
            Value::Missing => Value::Int32(0),
            Value::Int32(_) | Value::Int64(_) => old,
            other => bail!(
                Code::BAD_VALUE,
                "Cannot apply $bit to a value of non-integral type.{} has the field {} of \
                 non-integer type {}",
                at.id(),
                at.field(),
                other.kind().name()
            ),
        };
        for (operation, operand) in &self.0 {
            value = combine(*operation, value, operand.value());
        }
        slot.put(value);
        Ok(())
    }
}

fn combine<'a>(operation: Operation, a: Value<'_>, b: Value<'_>) -> Value<'a> {
    let (Some(x), Some(y)) = (integer(a), integer(b)) else { return Value::Missing };
    let result = match operation {
        Operation::And => x & y,
        Operation::Or => x | y,
        Operation::Xor => x ^ y,
    };
    match (a, b) {
        (Value::Int32(_), Value::Int32(_)) => Value::Int32(result as i32),
        _ => Value::Int64(result),
    }
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        _ => None,
    }
}
