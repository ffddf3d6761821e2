//! `tests/golden/expr`: one file an operator. Verbs: `doc` sets the document, `eval` evaluates.

use bumpalo::Bump;
use nagi_bson::{DocBuf, Value, json};
use nagi_error::Error;
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};

#[test]
fn golden_cases_of_expressions() {
    let mut doc = DocBuf::new();
    nagi_testkit::golden::run_files(&nagi_testkit::golden::dir("expr"), &mut |_, verb, input| {
        match verb {
            "begin" => doc = DocBuf::new(),
            "doc" => match json::parse(input) {
                Ok(parsed) => doc = parsed,
                Err(error) => return format!("unreadable: {error}"),
            },
            "eval" => return eval(input, &doc),
            _ => return format!("unknown verb {verb}"),
        }
        "ok".into()
    });
}

fn eval(input: &str, doc: &DocBuf) -> String {
    let value = match json::parse_value(input) {
        Ok(value) => value,
        Err(error) => return format!("unreadable: {error}"),
    };
    let expr = match Expr::parse(value.value(), &mut ParseCx::new()) {
        Ok(expr) => expr,
        Err(error) => return error_text(&error),
    };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = Eval::new(doc.as_doc(), &vars, &arena, 1_700_000_000_000);
    match expr.eval(&cx) {
        Ok(value) => value_text(value),
        Err(error) => error_text(&error),
    }
}

fn error_text(error: &Error) -> String {
    format!("error {error}")
}

/// Extended JSON that tells the types apart.
fn value_text(value: Value<'_>) -> String {
    if value.is_missing() {
        return "missing".into();
    }
    let doc = DocBuf::build(|out| out.put("v", value));
    let text = json::to_canonical(doc.as_doc());
    let inner = text.trim_start_matches(['{', ' ']).trim_end_matches('}');
    let inner = inner.trim_start_matches("\"v\"").trim_start_matches([':', ' ']);
    let open = inner.matches('{').count();
    let close = inner.matches('}').count();
    format!("{}{}", inner.trim_end(), "}".repeat(open.saturating_sub(close)))
}
