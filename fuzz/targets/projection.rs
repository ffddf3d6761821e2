//! The projection of a find and a document, as text in shell notation, one per line. The output must be BSON,
//! and the output of an inclusion of plain paths must be equal to that of `$project`.
#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use nagi_bson::{DocBuf, DocWriter, Value, json};
use nagi_lang::expr::{Eval, ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx};
use nagi_lang::project::{AggProjection, Projection};

fuzz_target!(|data: &str| {
    let (spec, doc) = data.split_once('\n').unwrap_or((data, "{}"));
    let (Ok(spec), Ok(doc)) = (json::parse(spec), json::parse(doc)) else { return };
    // The document is its own filter, so that positional projections have a matching element.
    let Ok(filter) = Filter::parse(doc.as_doc(), &mut ParseCx::new()) else { return };
    let cx = &mut ParseCx::new();
    let Ok(projection) = Projection::parse_find(spec.as_doc(), Some(&filter), cx) else { return };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let found = filter.matches_with_position(doc.as_doc(), &MatchCx::new(&vars, &arena, 0));
    let Ok(found) = found else { return };
    let eval = Eval::new(doc.as_doc(), &vars, &arena, 0);
    let mut bytes = Vec::new();
    let mut out = DocWriter::new(&mut bytes);
    let done = projection.apply(doc.as_doc(), found.unwrap_or_default(), &eval, &mut out).is_ok();
    out.finish();
    if !done || bytes.len() >= 16 << 20 {
        return;
    }
    let plain = spec.as_doc().iter().all(|e| matches!(e.value(), Value::Int32(1) | Value::Bool(true)));
    if plain && let Ok(other) = AggProjection::parse(spec.as_doc().into(), &mut ParseCx::new()) {
        let mut expected = Vec::new();
        if other.apply(&eval, &mut DocWriter::new(&mut expected)).is_ok() {
            assert_eq!(bytes, expected, "{:?}", spec.as_doc());
        }
    }
    let _ = DocBuf::from_bytes(bytes);
});
