//! Bytes that are not BSON, or nearly BSON: they are rejected or can be read, but never cause a panic.

use nagi_bson::{DEPTH_MAX, Doc, DocBuf, compare, doc, json};
use proptest::prelude::*;

use crate::generate::tree;

/// Reads all parts of a document.
fn walk(doc: Doc<'_>) {
    let _ = doc.to_string();
    let _ = json::to_canonical(doc);
    let _ = compare::docs(doc, Doc::EMPTY);
    for element in doc {
        let _ = compare::hash_of(element.value());
        let copy = DocBuf::build(|w| w.put(element.name(), element.value()));
        assert!(Doc::parse(copy.as_bytes()).is_ok());
    }
}

#[test]
fn nesting_is_bounded() {
    let mut bytes = doc! {}.into_bytes();
    for level in 1..=DEPTH_MAX + 1 {
        let inner = DocBuf::from_bytes(bytes);
        let inner = inner.unwrap_or_else(|e| panic!("level {level}: {e}"));
        bytes = doc! { "a": (&inner) }.into_bytes();
        if level == DEPTH_MAX + 1 {
            assert!(Doc::parse(&bytes).unwrap_err().is_too_deep());
        }
    }
}

#[test]
fn lengths_lie() {
    let good = doc! { "s": "text", "d": { "a": [1, 2] }, "n": 1 };
    for at in 0..good.as_bytes().len() {
        for byte in [0, 1, 4, 0x7F, 0x80, 0xFF] {
            let mut bytes = good.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(doc) = Doc::parse(&bytes) {
                walk(doc);
            }
        }
        assert!(Doc::parse(&good.as_bytes()[..at]).is_err());
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut framed = (bytes.len() as i32 + 5).to_le_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        framed.push(0);
        if let Ok(doc) = Doc::parse(&framed) {
            walk(doc);
        }
    }

    #[test]
    fn changed_documents(tree in tree(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let value = tree.to_value();
        let mut bytes = DocBuf::build(|w| w.put("v", value.value())).into_bytes();
        prop_assert!(Doc::parse(&bytes).is_ok());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(doc) = Doc::parse(&bytes) {
            walk(doc);
        }
    }
}
