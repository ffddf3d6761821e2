//! Field paths in expressions, such as `$a.b`. A path maps over arrays of documents.
//!
//! Two rules differ from paths in filters: a numeric component is always a field name, never an array position, and
//! array elements that are not documents (nested arrays among them) are left out of the result.

use nagi_bson::{Array, Doc, NameTag, Value};

use super::Eval;

/// The components of a path such as `a.b.c`; there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprPath(Box<[(NameTag, Box<str>)]>);

impl ExprPath {
    /// Splits a path that [`super::parse_field_path`] has checked.
    pub(crate) fn split(path: &str) -> ExprPath {
        ExprPath(path.split('.').map(|part| (NameTag::of(part), part.into())).collect())
    }

    pub fn parts(&self) -> &[(NameTag, Box<str>)] {
        &self.0
    }

    /// The path in its dotted form, without `$`.
    pub fn dotted(&self) -> String {
        let parts: Vec<&str> = self.0.iter().map(|(_, part)| &**part).collect();
        parts.join(".")
    }

    /// The value at the path in `doc`. It allocates only if it maps over an array.
    pub fn of_doc<'a>(&self, doc: Doc<'a>, cx: &Eval<'a>) -> Value<'a> {
        in_doc(doc, &self.0, cx)
    }

    /// The value at the path in any value. Values other than documents and arrays of documents give `Missing`.
    pub fn of_value<'a>(&self, value: Value<'a>, cx: &Eval<'a>) -> Value<'a> {
        in_value(value, &self.0, cx)
    }
}

fn in_doc<'a>(doc: Doc<'a>, parts: &[(NameTag, Box<str>)], cx: &Eval<'a>) -> Value<'a> {
    let mut doc = doc;
    for (at, (tag, part)) in parts.iter().enumerate() {
        let value = doc.get_tagged(*tag, part);
        let rest = &parts[at + 1..];
        match value {
            _ if rest.is_empty() => return value,
            Value::Doc(inner) => doc = inner,
            Value::Array(items) => return over_array(items, rest, cx),
            _ => return Value::Missing,
        }
    }
    Value::Doc(doc)
}

fn in_value<'a>(value: Value<'a>, parts: &[(NameTag, Box<str>)], cx: &Eval<'a>) -> Value<'a> {
    match value {
        Value::Doc(doc) => in_doc(doc, parts, cx),
        Value::Array(items) => over_array(items, parts, cx),
        _ => Value::Missing,
    }
}

fn over_array<'a>(items: Array<'a>, parts: &[(NameTag, Box<str>)], cx: &Eval<'a>) -> Value<'a> {
    let built = cx.array(|out| {
        for item in items.iter() {
            if let Value::Doc(doc) = item {
                let value = in_doc(doc, parts, cx);
                if !value.is_missing() {
                    out.push(value);
                }
            }
        }
        Ok(())
    });
    built.unwrap_or(Value::Missing)
}
