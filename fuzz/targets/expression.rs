//! An expression and a document, as text in shell notation, one per line. The expression is also used in
//! `$expr`, `$project` and `$addFields`.
#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use nagi_bson::{Doc, DocBuf, DocWriter, Value, json};
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx};
use nagi_lang::project::{AddFields, AggProjection};

fuzz_target!(|data: &str| {
    let (spec, doc) = data.split_once('\n').unwrap_or((data, "{}"));
    let (Ok(spec), Ok(doc)) = (json::parse_value(spec), json::parse(doc)) else { return };
    if let Ok(expr) = Expr::parse(spec.value(), &mut ParseCx::new()) {
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        if let Ok(value) = expr.eval(&Eval::new(doc.as_doc(), &vars, &arena, 0)) {
            let _ = DocBuf::build(|w| w.put("value", value)).as_doc().count();
            // These are random: two evaluations may differ.
            let by_chance = ["rand", "sampleRate", "createObjectId", "currentDate"];
            if !by_chance.iter().any(|name| data.contains(name)) {
                as_filter(spec.value(), doc.as_doc(), value.is_truthy());
            }
        }
    }
    let Value::Doc(_) = spec.value() else { return };
    if let Ok(projection) = AggProjection::parse(spec.value(), &mut ParseCx::new()) {
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        let mut bytes = Vec::new();
        let done = projection.apply(&cx, &mut DocWriter::new(&mut bytes)).is_ok();
        check(done, bytes);
    }
    if let Ok(fields) = AddFields::parse(spec.value(), "$addFields", &mut ParseCx::new()) {
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        let mut bytes = Vec::new();
        let done = fields.apply(&cx, &mut DocWriter::new(&mut bytes)).is_ok();
        check(done, bytes);
    }
});

/// A filter by `$expr` agrees with the expression, however the filter is rewritten.
fn as_filter(spec: Value<'_>, doc: Doc<'_>, expected: bool) {
    let filter = DocBuf::build(|w| w.put("$expr", spec));
    let Ok(filter) = Filter::parse(filter.as_doc(), &mut ParseCx::new()) else { return };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    for filter in [filter.clone(), filter.normalize()] {
        let matched = filter.matches(doc, &MatchCx::new(&vars, &arena, 0));
        assert_eq!(matched.ok(), Some(expected), "{spec}");
    }
}

/// The output is BSON that the server would accept from a client, if its depth is allowed.
fn check(done: bool, bytes: Vec<u8>) {
    if done && bytes.len() < (16 << 20) {
        let _ = DocBuf::from_bytes(bytes);
    }
}
