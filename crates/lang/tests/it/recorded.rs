//! Replays answers recorded from a MongoDB server (the golden set), without a server.
//!
//! Runs if `NAGI_GOLDEN` names the directory of the set. `NAGI_GOLDEN_OUT` names a file that receives one line per
//! difference; `NAGI_GOLDEN_AREAS` selects areas.

use std::fmt::Write as _;
use std::path::Path;

use nagi_bson::{Array, Doc, DocBuf, Value, compare, json};

use crate::pipeline;

/// The minimal percentage of run cases that must agree.
const PASS_PERCENT_MIN: f64 = 97.0;

#[test]
fn recorded_answers_agree() {
    let Ok(dir) = std::env::var("NAGI_GOLDEN") else {
        return;
    };
    let areas = std::env::var("NAGI_GOLDEN_AREAS").unwrap_or("expr,date,pipeline,error".into());
    let mut report = String::new();
    for area in areas.split(',') {
        let path = Path::new(&dir).join("known").join(format!("{area}.jsonl"));
        let text = std::fs::read_to_string(&path).expect("the golden set is readable");
        let (mut ran, mut failed) = (0, 0);
        for line in text.lines() {
            let Ok(case) = json::parse(line) else {
                continue;
            };
            let case = case.as_doc();
            let verdict = std::panic::catch_unwind(|| check(case))
                .unwrap_or_else(|_| Some(Err("panic".into())));
            let Some(verdict) = verdict else {
                continue;
            };
            ran += 1;
            if let Err(why) = verdict {
                failed += 1;
                let id = case.get("id").as_str().unwrap_or("?").to_owned();
                let setup = case.get("setup");
                let request = case.get("request").as_doc().unwrap_or(Doc::EMPTY);
                let _ = writeln!(report, "{id}\t{why}\t{}\t{setup}", request.get("pipeline"));
            }
        }
        println!("{area}: {} of {ran} agree", ran - failed);
        assert!(
            ran == 0
                || 100.0 * f64::from(ran - failed) / f64::from(ran) >= PASS_PERCENT_MIN
                || std::env::var_os("NAGI_GOLDEN_OUT").is_some(),
            "{area}: {failed} of {ran} differ\n{report}"
        );
    }
    if let Ok(path) = std::env::var("NAGI_GOLDEN_OUT") {
        std::fs::write(path, report).expect("the report can be written");
    }
}

/// `None` if the case needs features outside of this crate.
fn check(case: Doc<'_>) -> Option<Result<(), String>> {
    let (Value::Doc(request), Value::Doc(reply)) = (case.get("request"), case.get("reply")) else {
        return None;
    };
    let known = ["aggregate", "pipeline", "cursor"];
    if !case.get("until").is_missing() || request.iter().any(|e| !known.contains(&e.name())) {
        return None;
    }
    let Value::Array(stages) = request.get("pipeline") else {
        return None;
    };
    let stages: Vec<Doc<'_>> = stages.iter().map(|s| s.as_doc()).collect::<Option<_>>()?;
    let own = ["$project", "$addFields", "$set", "$unset", "$replaceRoot", "$group"];
    if !stages.iter().any(|s| s.first().is_some_and(|e| own.contains(&e.name()))) {
        return None;
    }
    let docs: Vec<DocBuf> = match case.get("setup") {
        Value::Array(docs) => docs.iter().filter_map(|d| d.as_doc()).map(|d| d.to_buf()).collect(),
        _ => Vec::new(),
    };
    let outcome = pipeline::run(&stages, docs)?;
    Some(match (outcome, reply.get("cursor")) {
        (Ok(docs), Value::Doc(cursor)) => same_docs(&docs, cursor, case),
        (Ok(docs), _) => Err(format!("wanted error {} got {docs:?}", reply.get("errmsg"))),
        (Err(error), Value::Doc(cursor)) => {
            Err(format!("wanted {} got {error}", cursor.get("firstBatch")))
        }
        (Err(error), _) => match reply.get("code") {
            Value::Int32(code) if code == error.code().0 => Ok(()),
            code => Err(format!("wanted {code} {} got {error}", reply.get("errmsg"))),
        },
    })
}

fn same_docs(docs: &[DocBuf], cursor: Doc<'_>, case: Doc<'_>) -> Result<(), String> {
    let Value::Array(wanted) = cursor.get("firstBatch") else {
        return Err("no batch".into());
    };
    let names: Vec<&str> = match case.get("sets") {
        Value::Array(names) => names.iter().filter_map(|n| n.as_str()).collect(),
        _ => Vec::new(),
    };
    let text = |doc: Doc<'_>| canonical(doc, &names);
    let mut ours: Vec<String> = docs.iter().map(|d| text(d.as_doc())).collect();
    let mut theirs: Vec<String> = wanted.iter().filter_map(|d| d.as_doc()).map(text).collect();
    if case.get("unordered").is_truthy() {
        ours.sort();
        theirs.sort();
    }
    if ours == theirs || ours.len() > 101 {
        return Ok(());
    }
    Err(format!("wanted {theirs:?} got {ours:?}"))
}

/// A text that is equal for values that count as equal.
fn canonical(doc: Doc<'_>, sets: &[&str]) -> String {
    let doc = DocBuf::build(|out| {
        for element in doc {
            match element.value() {
                Value::Array(items) if sets.contains(&element.name()) => {
                    out.array(element.name(), |out| {
                        sorted(items).iter().for_each(|v| out.push(*v))
                    });
                }
                value => out.put(element.name(), value),
            }
        }
    });
    json::to_canonical(doc.as_doc())
}

fn sorted(items: Array<'_>) -> Vec<Value<'_>> {
    let mut values: Vec<Value<'_>> = items.iter().collect();
    values.sort_by(|a, b| compare::values(*a, *b));
    values
}
