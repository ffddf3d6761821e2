//! Values at dotted paths of plain objects: read, replaced, made.

use super::prelude::*;

/// The components of a field path.
pub(super) fn components(path: &str) -> Result<Box<[Box<str>]>> {
    nagi_lang::expr::parse_field_path(path)?;
    Ok(path.split('.').map(Box::from).collect())
}

/// The value at a path of plain objects; arrays on the way end it.
pub(super) fn value_at<'a>(doc: Doc<'a>, path: &[Box<str>]) -> Value<'a> {
    let mut value = Value::Doc(doc);
    for name in path {
        let Value::Doc(inner) = value else { return Value::Missing };
        value = inner.get(name);
    }
    value
}

/// Writes `doc` with the value at `path` replaced (or removed if missing). The path leads through
/// objects only; what is missing on the way is made.
pub(super) fn write_replaced(
    out: &mut DocWriter<'_>,
    doc: Doc<'_>,
    path: &[Box<str>],
    value: Value<'_>,
) {
    let (name, rest) = path.split_first().expect("a field path has a component");
    let mut seen = false;
    for element in doc {
        if seen || element.name() != &**name {
            out.put(element.name(), element.value());
            continue;
        }
        seen = true;
        write_field(out, name, element.value(), rest, value);
    }
    if !seen && !value.is_missing() {
        write_field(out, name, Value::Missing, rest, value);
    }
}

fn write_field(
    out: &mut DocWriter<'_>,
    name: &str,
    old: Value<'_>,
    rest: &[Box<str>],
    value: Value<'_>,
) {
    if rest.is_empty() {
        out.put(name, value);
    } else {
        let inner = old.as_doc().unwrap_or(Doc::EMPTY);
        out.doc(name, |out| write_replaced(out, inner, rest, value));
    }
}
