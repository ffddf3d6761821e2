//! The golden cases in `tests/golden/accum`, one file per accumulator. `run` accumulates over the documents that
//! follow `over`.
//!
//! Each case runs twice: with one state, and with two states for the two halves that are merged. The results must be
//! equal.

use bumpalo::Bump;
use nagi_bson::{DocBuf, Value, json};
use nagi_error::{Error, Result};
use nagi_lang::accum::{AccumSpec, Accumulator, accumulator_names};
use nagi_lang::expr::{Eval, ParseCx, Vars};
use nagi_testkit::rows;

/// Accumulators that accept a value of any type.
const NEVER_FAIL: &[(&str, &str)] = &[];

/// Accumulators for which no type is an error.
const ANY_TYPE: &[&str] = &[
    "$addToSet",
    "$avg",
    "$count",
    "$first",
    "$last",
    "$max",
    "$min",
    "$push",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
];

/// Accumulators that a client may not use.
const ALWAYS_FAIL: &[(&str, &str)] =
    &[("$_internalConstructStats", "only the command analyze may use it")];

#[test]
fn golden_cases_of_accumulators() {
    let dir = nagi_testkit::golden::dir("accum");
    nagi_testkit::golden::run(&dir, &mut |verb, input| match verb {
        "run" => run(input),
        _ => format!("unknown verb {verb}"),
    });
}

#[test]
fn every_accumulator_has_a_case_file() {
    let names: Vec<&str> = accumulator_names().collect();
    assert!(names.is_sorted(), "the table of accumulators is sorted by name");
    rows::check(
        "accum",
        names,
        &rows::Files {
            never_fails: NEVER_FAIL,
            language: true,
            any_type: ANY_TYPE,
            always_fails: ALWAYS_FAIL,
            ..rows::Files::default()
        },
    );
}

fn run(input: &str) -> String {
    let (spec, docs) = input.split_once("\nover ").unwrap_or((input, "[]"));
    let (spec, docs) = match (json::parse_value(spec), json::parse_value(docs)) {
        (Ok(spec), Ok(docs)) => (spec, docs),
        (Err(error), _) | (_, Err(error)) => return format!("unreadable: {error}"),
    };
    let docs: Vec<DocBuf> = match docs.value() {
        nagi_bson::Value::Array(docs) => {
            docs.iter().filter_map(|d| d.as_doc()).map(|d| d.to_buf()).collect()
        }
        _ => return "unreadable: no array".into(),
    };
    let spec = match AccumSpec::parse_field("r", spec.value(), &mut ParseCx::new()) {
        Ok(spec) => spec,
        Err(error) => return error_text(&error),
    };
    let whole = accumulate(&spec, &docs).and_then(|mut state| result(&mut *state));
    let (first, second) = docs.split_at(docs.len() / 2);
    let merged = merged(&spec, first, second);
    match (whole, merged) {
        (Ok(whole), Ok(merged)) if whole == merged => whole,
        (Ok(whole), Ok(merged)) => format!("{whole} but merged {merged}"),
        (Err(error), _) | (_, Err(error)) => error_text(&error),
    }
}

fn merged(spec: &AccumSpec, first: &[DocBuf], second: &[DocBuf]) -> Result<String> {
    let mut total = spec.new_state();
    for part in [first, second] {
        let state = accumulate(spec, part)?;
        let partial = DocBuf::build(|out| state.partial(out.slot("")));
        let scripts = nagi_js::Session::new();
        total.merge_in(partial.get(""), &Vars::EMPTY.with_scripts(Some(&scripts)))?;
    }
    result(&mut *total)
}

fn accumulate(spec: &AccumSpec, docs: &[DocBuf]) -> Result<Box<dyn Accumulator>> {
    let mut state = spec.new_state();
    let scripts = nagi_js::Session::new();
    let vars = Vars::EMPTY.with_scripts(Some(&scripts));
    state.start(Value::Null, &vars, 0)?;
    for doc in docs {
        let arena = Bump::new();
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        state.add_in(spec.argument().eval(&cx)?, &vars)?;
    }
    Ok(state)
}

fn result(state: &mut dyn Accumulator) -> Result<String> {
    let scripts = nagi_js::Session::new();
    state.settle(&Vars::EMPTY.with_scripts(Some(&scripts)))?;
    let doc = DocBuf::build(|out| state.finish(out.slot("r")));
    Ok(json::to_canonical(doc.as_doc()))
}

fn error_text(error: &Error) -> String {
    format!("error {error}")
}
