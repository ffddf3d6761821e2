//! Order, equality and hashes of values under a collation.
//!
//! Each function takes the collation as an option. Without one it calls `nagi_bson::compare` directly.

use std::cmp::Ordering;

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value, ValueBuf, compare};

use super::Collation;

impl compare::Texts for &Collation {
    fn order(&self, a: &str, b: &str) -> Ordering {
        self.compare(a, b)
    }
}

/// Compares values as sorts, indexes and `$lt` do: missing equals null.
#[inline]
pub fn values(a: Value<'_>, b: Value<'_>, collation: Option<&Collation>) -> Ordering {
    match collation {
        None => compare::values(a, b),
        Some(collation) => compare::values_by(a, b, &collation),
    }
}

/// Compares values as expressions do: missing (and undefined) sort below null.
#[inline]
pub fn expr_values(a: Value<'_>, b: Value<'_>, collation: Option<&Collation>) -> Ordering {
    match collation {
        None => compare::expr_values(a, b),
        Some(collation) => compare::expr_values_by(a, b, &collation),
    }
}

/// Returns true if two values are equal.
#[inline]
pub fn equal(a: Value<'_>, b: Value<'_>, collation: Option<&Collation>) -> bool {
    values(a, b, collation) == Ordering::Equal
}

/// A hash that is the same for values that are [`equal`].
#[inline]
pub fn hash_of(value: Value<'_>, collation: Option<&Collation>) -> u64 {
    match collation {
        None => compare::hash_of(value),
        Some(collation) => match collation.keyed(value) {
            Some(keyed) => compare::hash_of(keyed.value()),
            None => compare::hash_of(value),
        },
    }
}

/// Returns true if a collation affects the value: it contains a string, at any depth.
pub fn has_text(value: Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::Symbol(_) => true,
        Value::Doc(doc) => doc.iter().any(|element| has_text(element.value())),
        Value::Array(items) => items.iter().any(has_text),
        _ => false,
    }
}

impl Collation {
    /// The value with each string replaced by its key; none if it contains no string.
    pub fn keyed(&self, value: Value<'_>) -> Option<ValueBuf> {
        if !has_text(value) {
            return None;
        }
        Some(match value {
            Value::String(text) => ValueBuf::new(Value::String(&self.key_of(text))),
            Value::Symbol(text) => ValueBuf::new(Value::Symbol(&self.key_of(text))),
            _ => {
                let mut bytes = Vec::new();
                let mut out = ArrayWriter::new(&mut bytes);
                self.push(value, &mut out);
                out.finish();
                ValueBuf::new(Array::trusted(&bytes).get(0))
            }
        })
    }

    fn key_of(&self, text: &str) -> String {
        let mut key = String::new();
        self.key(text, &mut key);
        key
    }

    fn push(&self, value: Value<'_>, out: &mut ArrayWriter<'_>) {
        match value {
            Value::String(text) => out.push(Value::String(&self.key_of(text))),
            Value::Symbol(text) => out.push(Value::Symbol(&self.key_of(text))),
            Value::Doc(doc) => out.doc(|out| self.fields(doc, out)),
            Value::Array(items) => out.array(|out| self.items(items, out)),
            other => out.push(other),
        }
    }

    fn items(&self, items: Array<'_>, out: &mut ArrayWriter<'_>) {
        items.iter().for_each(|value| self.push(value, out));
    }

    fn fields(&self, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        for element in doc {
            let name = element.name();
            match element.value() {
                Value::String(text) => out.put(name, Value::String(&self.key_of(text))),
                Value::Symbol(text) => out.put(name, Value::Symbol(&self.key_of(text))),
                Value::Doc(inner) => out.doc(name, |out| self.fields(inner, out)),
                Value::Array(items) => out.array(name, |out| self.items(items, out)),
                other => out.put(name, other),
            }
        }
    }
}
