//! `$currentDate`: sets a field to the time of the command, as a date or a timestamp.

use nagi_bson::{Element, Value, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::{At, Change, UpdateOp};
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const CURRENT_DATE: UpdateOp =
    UpdateOp { name: "$currentDate", parse: |update, field, _| parse(update, field) };

/// The type of the value: a timestamp or a date.
#[derive(Debug)]
pub(crate) struct CurrentDate {
    timestamp: bool,
}

fn parse(update: &mut Operators, field: Element<'_>) -> Result<()> {
    let timestamp = match field.value() {
        Value::Bool(_) => false,
        Value::Doc(options) => {
            let mut timestamp = None;
            for option in options {
                if option.name() != "$type" {
                    bail!(Code::BAD_VALUE, "Unrecognized $currentDate option: {}", option.name());
                }
                timestamp = match option.value() {
                    Value::String("date") => Some(false),
                    Value::String("timestamp") => Some(true),
                    _ => return no_type(),
                };
            }
            match timestamp {
                Some(timestamp) => timestamp,
                None => return no_type(),
            }
        }
        other => bail!(
            Code::BAD_VALUE,
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
             expression ({{$type: 'timestamp/date'}}).",
            other.kind().name()
        ),
    };
    update.add(&FieldPath::new(field.name()), Change::CurrentDate(CurrentDate { timestamp }))
}

fn no_type<T>() -> Result<T> {
    bail!(
        Code::BAD_VALUE,
        "The '$type' string field is required to be 'date' or 'timestamp': {{$currentDate: {{field \
         : {{$type: 'date'}}}}}}"
    )
}

impl CurrentDate {
    pub(super) fn apply(&self, at: &At<'_, '_>, slot: ValueSlot<'_>) {
        slot.put(if self.timestamp {
            Value::Timestamp((at.cx.next_timestamp)())
        } else {
            Value::DateTime(at.cx.now_ms)
        });
    }
}
