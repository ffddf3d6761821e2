//! `$push` with `$each`, `$position`, `$sort` and `$slice`.
//!
//! The steps are always insert, sort, slice, in this order, whatever the order of the clauses.

use nagi_bson::{Doc, Element, Value, ValueBuf, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::push_sort::ElementOrder;
use super::{At, Change, UpdateOp};
use crate::collation::Collation;
use crate::expr::ParseCx;
use crate::memory::check_array;
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const PUSH: UpdateOp = UpdateOp { name: "$push", parse };

/// A parsed `$push`.
#[derive(Debug)]
pub(crate) struct Push {
    values: Vec<ValueBuf>,
    position: Option<i64>,
    sort: Option<ElementOrder>,
    slice: Option<i64>,
    /// The collation of the sort.
    collation: Option<&'static Collation>,
}

fn parse(update: &mut Operators, field: Element<'_>, cx: &mut ParseCx<'_>) -> Result<()> {
    let push = match field.value() {
        Value::Doc(clauses) if !clauses.get("$each").is_missing() => parse_clauses(clauses, cx)?,
        value => {
            let values = vec![ValueBuf::new(value)];
            Push { values, position: None, sort: None, slice: None, collation: None }
        }
    };
    update.add(&FieldPath::new(field.name()), Change::Push(push))
}

fn parse_clauses(clauses: Doc<'_>, cx: &ParseCx<'_>) -> Result<Push> {
    for clause in clauses {
        if !matches!(clause.name(), "$each" | "$slice" | "$sort" | "$position") {
            bail!(Code::BAD_VALUE, "Unrecognized clause in $push: {}", clause.name());
        }
    }
    let Value::Array(each) = clauses.get("$each") else {
        bail!(
            Code::BAD_VALUE,
            "The argument to $each in $push must be an array but it was of type: {}",
            clauses.get("$each").kind().name()
        );
    };
    let slice = whole(clauses.get("$slice")).map_err(|kind| {
        nagi_error::err!(
            Code::BAD_VALUE,
            "The value for $slice must be an integer value but was given type: {kind}"
        )
    })?;
    let sort = match clauses.get("$sort") {
        Value::Missing => None,
        value => Some(ElementOrder::parse(value)?),
    };
    let position = whole(clauses.get("$position")).map_err(|kind| {
        nagi_error::err!(
            Code::BAD_VALUE,
            "The value for $position must be an integer value, not of type: {kind}"
        )
    })?;
    check_array(each)?;
    let values = each.iter().map(ValueBuf::new).collect();
    Ok(Push { values, position, sort, slice, collation: cx.collation() })
}

/// Parses an integer. The error is the name of the type of a value that is not an integer.
fn whole(value: Value<'_>) -> std::result::Result<Option<i64>, &'static str> {
    match value {
        Value::Missing => Ok(None),
        value => number::as_i64_exact(value).map(Some).ok_or(value.kind().name()),
    }
}

impl Push {
    /// The number of levels that the operand adds below its path.
    pub(super) fn depth(&self) -> usize {
        1 + self.values.iter().map(|v| v.value().depth()).max().unwrap_or(0)
    }

    /// Returns true if values are added or sorted. This counts as a change whatever the result is.
    pub(super) fn always_counts(&self) -> bool {
        !self.values.is_empty() || self.sort.is_some()
    }

    pub(super) fn apply(&self, old: Value<'_>, at: &At<'_, '_>, slot: ValueSlot<'_>) -> Result<()> {
        let array = match old {
            Value::Missing => nagi_bson::Array::EMPTY,
            Value::Array(array) => array,
            other => bail!(
                Code::BAD_VALUE,
                "The field '{}' must be an array but is of type {} in document {{{}}}",
                at.path,
                other.kind().name(),
                at.id()
            ),
        };
        if self.position.is_none() && self.sort.is_none() && self.slice.is_none() {
            slot.array(|out| {
                array.elements().for_each(|element| out.push_element(element));
                self.values.iter().for_each(|value| out.push(value.value()));
            });
            return Ok(());
        }
        let mut values: Vec<Value<'_>> = array.iter().collect();
        let place = place(self.position, values.len());
        values.splice(place..place, self.values.iter().map(ValueBuf::value));
        if let Some(order) = &self.sort {
            values.sort_by(|a, b| order.compare(*a, *b, self.collation));
        }
        let kept = match self.slice {
            None => &values[..],
            Some(n) if n >= 0 => &values[..values.len().min(n as usize)],
            Some(n) => {
                let count = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
                &values[values.len().saturating_sub(count)..]
            }
        };
        slot.array(|out| kept.iter().for_each(|value| out.push(*value)));
        Ok(())
    }
}

/// The position of the new elements. A negative position counts from the end; all positions are limited to the array.
fn place(position: Option<i64>, len: usize) -> usize {
    match position {
        None => len,
        Some(n) if n >= 0 => len.min(usize::try_from(n).unwrap_or(usize::MAX)),
        Some(n) => len.saturating_sub(usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX)),
    }
}
