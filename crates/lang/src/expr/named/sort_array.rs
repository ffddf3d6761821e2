//! `$sortArray`: sorts the elements of an array in BSON order, as whole values or by fields.
use std::cmp::Ordering;

use super::prelude::*;
use crate::collation::{self, Collation};
use crate::expr::parse_field_path;
use crate::ordered::order_slowly;
use nagi_bson::Doc;

pub(super) static OPS: &[Named] = &[Named {
    name: "$sortArray",
    params: &[("input", Some(2942502)), ("sortBy", Some(2942503))],
    not_object: 2942500,
    unknown: 2942501,
    short: Some(constant_sort),
    eval: sort_array,
}];

/// Checks `sortBy`, which is not an expression, and keeps it as a constant.
fn constant_sort(
    _: &'static Named,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Option<Args>> {
    let Value::Doc(doc) = value else {
        return Ok(None);
    };
    let known = |name: &str| matches!(name, "input" | "sortBy");
    if doc.iter().any(|e| !known(e.name())) || doc.element("input").is_none() {
        return Ok(None);
    }
    match doc.get("sortBy") {
        Value::Missing => return Ok(None),
        Value::Doc(keys) => check_keys(keys)?,
        whole => {
            direction(whole)?;
        }
    }
    let input = parse::operand(doc.get("input"), cx)?;
    Ok(Some(Box::new([Some(input), Some(Expr::constant(doc.get("sortBy")))])))
}

fn check_keys(keys: Doc<'_>) -> Result<()> {
    if keys.is_empty() {
        bail!(Code::Location(15976), "$sortArray must have at least one sort key");
    }
    for key in keys {
        if key.name().starts_with('$') {
            bail!(
                Code::Location(16410),
                "FieldPath field names may not start with '$'. Consider using $getField or \
                 $setField."
            );
        }
        parse_field_path(key.name())?;
        direction(key.value())?;
    }
    Ok(())
}

/// Parses a direction; returns true if it is descending.
fn direction(value: Value<'_>) -> Result<bool> {
    match number::as_i64_exact(value) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => bail!(Code::Location(15975), "The $sort element value must be either 1 or -1"),
    }
}

fn sort_array<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let items = match given.value(0)? {
        Value::Array(items) => items,
        value if value.is_nullish() => return Ok(Value::Null),
        other => bail!(
            Code::Location(2942504),
            "The input argument to $sortArray must be an array, but was of type: {}",
            type_name(other)
        ),
    };
    let by = given.value(1)?;
    let mut values = given.cx.list(items)?;
    given.cx.check_work(values.len() * size_of::<Value<'_>>())?;
    let own = given.cx.collation;
    let mut go_on = || given.cx.vars.step();
    match by {
        Value::Doc(keys) => {
            order_slowly(&mut values, &|a, b| by_keys(*a, *b, keys, own), &mut go_on)?;
        }
        whole => {
            let descending = direction(whole)?;
            let compare =
                |a: &Value<'a>, b: &Value<'a>| directed(collation::values(*a, *b, own), descending);
            order_slowly(&mut values, &compare, &mut go_on)?;
        }
    }
    given.cx.array_of(&values)
}

fn directed(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

fn by_keys(a: Value<'_>, b: Value<'_>, keys: Doc<'_>, own: Option<&Collation>) -> Ordering {
    for key in keys {
        let descending = direction(key.value()).unwrap_or(false);
        let at = |value| at_path(value, key.name(), descending, own);
        let order = directed(collation::values(at(a), at(b), own), descending);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The value by which an element is sorted. For an array it is the smallest or the largest element.
fn at_path<'a>(value: Value<'a>, path: &str, largest: bool, own: Option<&Collation>) -> Value<'a> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(f, r)| (f, Some(r)));
    let found = match value {
        Value::Doc(doc) => doc.get(first),
        _ => return Value::Null,
    };
    match (found, rest) {
        (Value::Array(items), rest) => {
            let below = |v| rest.map_or(v, |rest| at_path(v, rest, largest, own));
            let values = items.iter().map(below);
            let order = |a: &Value<'_>, b: &Value<'_>| collation::values(*a, *b, own);
            let best = if largest { values.max_by(order) } else { values.min_by(order) };
            best.unwrap_or(Value::Undefined)
        }
        (found, Some(rest)) => at_path(found, rest, largest, own),
        (Value::Missing, None) => Value::Null,
        (found, None) => found,
    }
}
