//! An expression and a document, as text in shell notation, one a line; `$project` and `$addFields` too.
#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use nagi_bson::{DocBuf, DocWriter, Value, json};
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};
use nagi_lang::project::{AddFields, AggProjection};

fuzz_target!(|data: &str| {
    let (spec, doc) = data.split_once('\n').unwrap_or((data, "{}"));
    let (Ok(spec), Ok(doc)) = (json::parse_value(spec), json::parse(doc)) else { return };
    if let Ok(expr) = Expr::parse(spec.value(), &mut ParseCx::new()) {
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        if let Ok(value) = expr.eval(&Eval::new(doc.as_doc(), &vars, &arena, 0)) {
            let _ = DocBuf::build(|w| w.put("value", value)).as_doc().count();
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

/// What was written is BSON that a stranger could have sent, if its depth is.
fn check(done: bool, bytes: Vec<u8>) {
    if done && bytes.len() < (16 << 20) {
        let _ = DocBuf::from_bytes(bytes);
    }
}
