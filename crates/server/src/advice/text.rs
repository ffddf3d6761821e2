//! Filters as text with `?` for each value, which may be a secret.

use nagi_bson::{Doc, Element, Value};

/// Depth below which a filter is shown as `?`.
const DEPTH_MAX: usize = 8;

/// A filter with `?` for each value. A document that a field is compared with is a value: its fields may be data.
pub(super) fn shape(filter: Doc<'_>, depth: usize) -> String {
    let part = |name: &str, value: Value<'_>| match value {
        _ if depth >= DEPTH_MAX => "?".to_owned(),
        Value::Array(list) if matches!(name, "$and" | "$or" | "$nor") => {
            let each = |item: Value<'_>| {
                item.as_doc().map_or("?".to_owned(), |filter| shape(filter, depth + 1))
            };
            listed(list.iter().map(each).collect(), ['[', ']'])
        }
        Value::Doc(operators) if !name.starts_with('$') && is_operators(operators) => {
            compared(operators, depth + 1)
        }
        value if name == "$expr" => expression(value, depth + 1),
        _ => "?".to_owned(),
    };
    let parts = filter.iter().map(|e| format!("{}: {}", e.name(), part(e.name(), e.value())));
    listed(parts.collect(), ['{', '}'])
}

/// What a field is compared with.
fn compared(operators: Doc<'_>, depth: usize) -> String {
    let part = |name: &str, value: Value<'_>| match (name, value) {
        _ if depth >= DEPTH_MAX => "?".to_owned(),
        ("$not" | "$elemMatch", Value::Doc(inner)) if is_operators(inner) => {
            compared(inner, depth + 1)
        }
        ("$elemMatch", Value::Doc(filter)) => shape(filter, depth + 1),
        _ => "?".to_owned(),
    };
    let parts = operators.iter().map(|e| format!("{}: {}", e.name(), part(e.name(), e.value())));
    listed(parts.collect(), ['{', '}'])
}

/// Names of arguments of expressions, which are no data.
const ARGUMENTS: &[&str] = &[
    "amount",
    "as",
    "branches",
    "case",
    "chars",
    "cond",
    "date",
    "default",
    "else",
    "endDate",
    "field",
    "find",
    "format",
    "if",
    "in",
    "initialValue",
    "input",
    "limit",
    "n",
    "onError",
    "onNull",
    "options",
    "regex",
    "replacement",
    "startDate",
    "then",
    "timezone",
    "to",
    "unit",
];

/// An expression: its operators, paths and variables. Names of fields may be data, as far as no operator knows them.
fn expression(value: Value<'_>, depth: usize) -> String {
    let is_known = |doc: Doc<'_>| {
        doc.first().is_some_and(|e| e.name().starts_with('$') || ARGUMENTS.contains(&e.name()))
    };
    match value {
        Value::String(path) if path.starts_with('$') => path.to_owned(),
        Value::Doc(doc) if depth < DEPTH_MAX && is_known(doc) => {
            let part = |e: Element<'_>| match e.name() {
                "$literal" => "$literal: ?".to_owned(),
                name if name.starts_with('$') || ARGUMENTS.contains(&name) => {
                    format!("{name}: {}", expression(e.value(), depth + 1))
                }
                _ => "?".to_owned(),
            };
            listed(doc.iter().map(part).collect(), ['{', '}'])
        }
        Value::Array(items) if depth < DEPTH_MAX && items.iter().any(is_computed) => {
            listed(items.iter().map(|item| expression(item, depth + 1)).collect(), ['[', ']'])
        }
        _ => "?".to_owned(),
    }
}

/// False for constants.
fn is_computed(value: Value<'_>) -> bool {
    match value {
        Value::String(path) => path.starts_with('$'),
        Value::Array(items) => items.iter().any(is_computed),
        Value::Doc(_) => true,
        _ => false,
    }
}

fn is_operators(doc: Doc<'_>) -> bool {
    doc.first().is_some_and(|first| {
        first.name().starts_with('$') && !matches!(first.name(), "$ref" | "$id" | "$db")
    })
}

fn listed(parts: Vec<String>, ends: [char; 2]) -> String {
    match parts.is_empty() {
        true => format!("{}{}", ends[0], ends[1]),
        false => format!("{} {} {}", ends[0], parts.join(", "), ends[1]),
    }
}
