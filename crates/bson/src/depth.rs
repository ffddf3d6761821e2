//! How deep values nest.

use crate::{Doc, Value};

/// What one more level takes at least: a length, a type, a name of no bytes, and the end.
const LEVEL_BYTES_MIN: usize = 7;

impl Value<'_> {
    /// Levels of nesting: 0 for a scalar, 1 for a document or an array of scalars. Costs a walk.
    ///
    /// The walk recurses: only for values whose depth is bounded, as everything from the network is.
    pub fn depth(self) -> usize {
        match inner(self) {
            Some(doc) => 1 + doc.iter().map(|e| e.value().depth()).max().unwrap_or(0),
            None => 0,
        }
    }
}

impl Doc<'_> {
    /// Whether the document, itself counted, nests more than `levels` deep. What is too short for that
    /// is not looked into, so that most documents cost one look at their length.
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

/// What a value nests.
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
