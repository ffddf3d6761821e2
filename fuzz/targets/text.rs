//! The operand of `$text` and a document, as text in shell notation, one per line; for each version of the
//! index. A document that matches contains a term of the search, so it has a score.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nagi_bson::{DocBuf, json};
use nagi_lang::expr::ParseCx;
use nagi_lang::filter::Filter;
use nagi_lang::text::{Language, TextSpec};
use std::sync::Arc;

fuzz_target!(|data: &str| {
    let (operand, doc) = data.split_once('\n').unwrap_or((data, "{}"));
    let (Ok(operand), Ok(doc)) = (json::parse_value(operand), json::parse(doc)) else { return };
    let spec = DocBuf::build(|out| out.put("$text", operand.value()));
    for version in 1..=3 {
        let Ok(Filter::Text(text)) = Filter::parse(spec.as_doc(), &mut ParseCx::new()) else { return };
        let index = TextSpec {
            fields: Box::new([("a".into(), 2.0), ("b.c".into(), 0.5)]),
            wildcard: (version > 1).then_some(1.0),
            default_language: Language::ENGLISH,
            language_override: "language".into(),
            version,
        };
        let Ok(bound) = text.bind(&Arc::new(index)) else { continue };
        let (matches, score) = (bound.matches(doc.as_doc()), bound.score(doc.as_doc()));
        if let (Ok(true), Ok(score)) = (matches, score) {
            assert!(score > 0.0, "{:?}", spec.as_doc());
        }
    }
});
