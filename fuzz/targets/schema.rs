//! A `$jsonSchema` and a document, as text in shell notation, one per line. Reasons for a failure are given
//! exactly when the document fails, and the normal form of the schema is equivalent to the schema.
#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use nagi_bson::{DocBuf, json};
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx, why_not};

fuzz_target!(|data: &str| {
    let (schema, doc) = data.split_once('\n').unwrap_or((data, "{}"));
    let (Ok(schema), Ok(doc)) = (json::parse(schema), json::parse(doc)) else { return };
    let spec = DocBuf::build(|out| out.put("$jsonSchema", &schema));
    let Ok(filter) = Filter::parse(spec.as_doc(), &mut ParseCx::new()) else { return };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = MatchCx::new(&vars, &arena, 0);
    let Ok(matches) = filter.matches(doc.as_doc(), &cx) else { return };
    let normal = filter.clone().normalize();
    assert_eq!(normal.matches(doc.as_doc(), &cx).ok(), Some(matches));
    if !matches {
        let why = DocBuf::build(|out| why_not(spec.as_doc(), doc.as_doc(), 0, out));
        assert!(!why.as_doc().is_empty(), "{:?}", spec.as_doc());
    }
});
