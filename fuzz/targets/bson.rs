//! Untrusted bytes as BSON: they are either refused, or read completely and printed and ordered like any other
//! document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nagi_bson::{Doc, Value, compare, json};

fuzz_target!(|data: &[u8]| {
    let Ok(doc) = Doc::parse(data) else { return };
    walk(doc, 0);
    if let Ok(back) = json::parse(&json::to_canonical(doc)) {
        // Reading sorts the options of a regular expression; after that the text no longer changes.
        let text = json::to_canonical(back.as_doc());
        let again = json::parse(&text).expect("our own text is readable");
        assert_eq!(json::to_canonical(again.as_doc()), text);
    }
    assert!(compare::docs(doc, doc).is_eq());
});

fn walk(doc: Doc<'_>, depth: u32) {
    assert!(depth < 256, "depth is bounded by validation");
    for element in doc.iter() {
        let value = element.value();
        assert!(compare::values(value, value).is_eq());
        match value {
            Value::Doc(inner) => walk(inner, depth + 1),
            Value::Array(inner) => inner.iter().for_each(|v| {
                if let Value::Doc(inner) = v {
                    walk(inner, depth + 1);
                }
            }),
            _ => {}
        }
    }
}
