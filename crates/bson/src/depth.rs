//! The nesting depth of values.

use crate::{Doc, Value};

/// The minimal number of bytes per level: a length, a type, an empty name and a terminator.
const LEVEL_BYTES_MIN: usize = 7;

impl Value<'_> {
    /// The number of nesting levels: 0 for a scalar, 1 for a document or an array of scalars. It scans the whole
    /// value.
    ///
    /// The scan is recursive, so it must only be used for values whose depth is bounded, as all validated values are.
    pub fn depth(self) -> usize {
        match inner(self) {
            Some(doc) => 1 + doc.iter().map(|e| e.value().depth()).max().unwrap_or(0),
            None => 0,
        }
    }
}

impl Doc<'_> {
    /// Returns true if the document has more than `levels` levels, including itself. A document that is too short for
    /// that is not scanned, so for most documents the cost is one comparison of the length.
    pub fn is_deeper_than(self, levels: usize) -> bool {
        if self.len() < (levels + 1) * LEVEL_BYTES_MIN - 2 {
            return false;
        }
        levels == 0
            || self
                .iter()
                .any(|e| inner(e.value()).is_some_and(|inner| inner.is_deeper_than(levels - 1)))
    }
}

/// The document or array inside of a value.
fn inner(value: Value<'_>) -> Option<Doc<'_>> {
    match value {
        Value::Doc(doc) => Some(doc),
        Value::Array(items) => Some(Doc::trusted(items.as_bytes())),
        Value::CodeWithScope(code) => Some(code.scope()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{DocBuf, Value};

    fn nested(levels: usize) -> DocBuf {
        (1..levels).fold(DocBuf::new(), |inner, _| DocBuf::build(|w| w.put("", &inner)))
    }

    #[test]
    fn levels_are_counted_to_the_last() {
        for levels in [1, 2, 3, 180, 200] {
            let doc = nested(levels);
            assert_eq!(Value::Doc(doc.as_doc()).depth(), levels);
            assert!(doc.as_doc().is_deeper_than(levels - 1), "{levels}");
            assert!(!doc.as_doc().is_deeper_than(levels), "{levels}");
        }
    }
}
