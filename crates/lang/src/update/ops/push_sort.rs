//! The `$sort` clause of `$push`: an order of array elements.

use std::cmp::Ordering;

use nagi_bson::{Doc, Value, number};
use nagi_error::{Code, Result, bail};

use crate::collation::{self, Collation};
use crate::path::{self, FieldPath};

/// Sorts by whole elements, or by fields of elements that are documents.
#[derive(Debug)]
pub(super) enum ElementOrder {
    Whole { descending: bool },
    Fields(Vec<(FieldPath, bool)>),
}

impl ElementOrder {
    /// Parses `1`, `-1` or `{field: 1, ...}`.
    ///
    /// # Errors
    /// 2 for other values.
    pub(super) fn parse(spec: Value<'_>) -> Result<ElementOrder> {
        match spec {
            Value::Doc(fields) => parse_fields(fields),
            value if value.is_number() => {
                Ok(ElementOrder::Whole { descending: descending(value)? })
            }
            _ => bail!(
                Code::BAD_VALUE,
                "The $sort is invalid: use 1/-1 to sort the whole element, or {{field:1/-1}} to \
                 sort embedded fields"
            ),
        }
    }

    /// Compares two elements.
    pub(super) fn compare(&self, a: Value<'_>, b: Value<'_>, own: Option<&Collation>) -> Ordering {
        match self {
            ElementOrder::Whole { descending: false } => collation::values(a, b, own),
            ElementOrder::Whole { descending: true } => collation::values(b, a, own),
            ElementOrder::Fields(fields) => fields
                .iter()
                .map(|(path, descending)| {
                    let order = collation::values(field(a, path), field(b, path), own);
                    if *descending { order.reverse() } else { order }
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}

/// A field of an element; `Missing` for scalars.
fn field<'a>(element: Value<'a>, path: &FieldPath) -> Value<'a> {
    match element {
        Value::Doc(doc) => path::lookup(doc, path),
        _ => Value::Missing,
    }
}

fn parse_fields(fields: Doc<'_>) -> Result<ElementOrder> {
    if fields.is_empty() {
        bail!(Code::BAD_VALUE, "The $sort pattern is empty when it should be a set of fields.");
    }
    let mut out = Vec::new();
    for element in fields {
        let name = element.name();
        if name.is_empty() {
            bail!(Code::BAD_VALUE, "The $sort field cannot be empty");
        }
        if name.split('.').any(str::is_empty) {
            bail!(
                Code::BAD_VALUE,
                "The $sort field is a dotted field but has an empty part: {name}"
            );
        }
        out.push((FieldPath::new(name), descending(element.value())?));
    }
    Ok(ElementOrder::Fields(out))
}

fn descending(value: Value<'_>) -> Result<bool> {
    match number::as_i64_exact(value).filter(|_| value.is_number()) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => bail!(Code::BAD_VALUE, "The $sort element value must be either 1 or -1"),
    }
}
