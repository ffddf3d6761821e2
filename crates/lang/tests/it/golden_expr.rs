//! The golden cases in `tests/golden/expr`, one file per operator. `eval` evaluates on the document that follows
//! `on`.

use bumpalo::Bump;
use nagi_bson::{DocBuf, Value, json};
use nagi_error::Error;
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};
use nagi_testkit::rows;

/// Operators that accept any value and any number of arguments.
const NEVER_FAIL: &[(&str, &str)] = &[];

/// Operators for which no type is an error.
const ANY_TYPE: &[&str] = &[
    "$and",
    "$avg",
    "$cmp",
    "$cond",
    "$createObjectId",
    "$currentDate",
    "$eq",
    "$gt",
    "$gte",
    "$isArray",
    "$isNumber",
    "$lt",
    "$lte",
    "$max",
    "$min",
    "$ne",
    "$not",
    "$or",
    "$rand",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$toHashedIndexKey",
];

#[test]
fn golden_cases_of_expressions() {
    let dir = nagi_testkit::golden::dir("expr");
    nagi_testkit::golden::run(&dir, &mut |verb, input| match verb {
        "eval" => eval(input),
        _ => format!("unknown verb {verb}"),
    });
}

#[test]
fn every_operator_has_a_case_file() {
    let files = rows::Files {
        never_fails: NEVER_FAIL,
        language: true,
        any_type: ANY_TYPE,
        ..rows::Files::default()
    };
    rows::check("expr", nagi_lang::expr::operator_names(), &files);
}

fn eval(input: &str) -> String {
    let (text, doc) = input.split_once("\non ").unwrap_or((input, "{}"));
    let (value, doc) = match (json::parse_value(text), json::parse(doc)) {
        (Ok(value), Ok(doc)) => (value, doc),
        (Err(error), _) | (_, Err(error)) => return format!("unreadable: {error}"),
    };
    let expr = match Expr::parse(value.value(), &mut ParseCx::new()) {
        Ok(expr) => expr,
        Err(error) => return error_text(&error),
    };
    let scripts = nagi_js::Session::new();
    let (arena, vars) = (Bump::new(), Vars::EMPTY.with_scripts(Some(&scripts)));
    let cx = Eval::new(doc.as_doc(), &vars, &arena, 1_700_000_000_000);
    match expr.eval(&cx) {
        Ok(value) => value_text(value),
        Err(error) => error_text(&error),
    }
}

fn error_text(error: &Error) -> String {
    format!("error {error}")
}

/// Canonical Extended JSON, which shows the types.
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
