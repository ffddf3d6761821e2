//! Pipelines with replies recorded from a real server (the golden set), replayed without a server.
//!
//! The test runs if `NAGI_GOLDEN` names the folder of the set. `NAGI_GOLDEN_OUT` names a file that gets one line
//! for each difference.

use std::fmt::Write as _;
use std::path::Path;

use nagi_bson::{Array, Doc, DocBuf, Value, compare, json};
use nagi_error::Result;
use nagi_query::{AggregateRequest, Env, aggregate};

use crate::fixture::{Fixture, NOW_MS, drain};

/// Cases that must agree, in percent of the cases that run.
const PASS_PERCENT_MIN: f64 = 97.0;

#[test]
fn recorded_pipelines_agree() {
    let Ok(dir) = std::env::var("NAGI_GOLDEN") else {
        return;
    };
    let path = Path::new(&dir).join("known/pipeline.jsonl");
    let text = std::fs::read_to_string(&path).expect("the golden set is readable");
    let (mut ran, mut failed, mut report) = (0, 0, String::new());
    for line in text.lines() {
        // The placeholder stands for the collection, also inside longer names.
        let line = line.replace("$COLL", "c").replace("$DB", "test");
        let Ok(case) = json::parse(&line) else {
            continue;
        };
        let Some(verdict) = check(case.as_doc()) else {
            continue;
        };
        ran += 1;
        if let Err(why) = verdict {
            failed += 1;
            let id = case.get("id").as_str().unwrap_or("?");
            let _ = writeln!(report, "{id}\t{why}\t{}", case.get("request"));
        }
    }
    println!("pipelines: {} of {ran} agree", ran - failed);
    if let Ok(path) = std::env::var("NAGI_GOLDEN_OUT") {
        std::fs::write(path, &report).expect("the report can be written");
    }
    let percent = 100.0 * f64::from(ran - failed) / f64::from(ran.max(1));
    assert!(percent >= PASS_PERCENT_MIN, "{failed} of {ran} differ\n{report}");
}

/// Returns `None` if the case needs more than pipelines over plain collections.
fn check(case: Doc<'_>) -> Option<std::result::Result<(), String>> {
    let (Value::Doc(request), Value::Doc(reply)) = (case.get("request"), case.get("reply")) else {
        return None;
    };
    let plain = ["aggregate", "pipeline", "cursor"];
    let refused = ["until", "needs", "create", "ignore", "after", "freshdb"];
    if request.iter().any(|e| !plain.contains(&e.name()))
        || refused.iter().any(|name| !case.get(name).is_missing())
        || request.get("aggregate").as_str() != Some("c")
        || request.get("cursor").as_doc().is_none_or(|cursor| !cursor.is_empty())
    {
        return None;
    }
    let Value::Array(stages) = request.get("pipeline") else {
        return None;
    };
    let fixture = Fixture::new();
    if let Value::Array(indexes) = case.get("indexes") {
        for spec in indexes.iter().filter_map(|spec| spec.as_doc()) {
            fixture.index(&json::to_relaxed(spec));
        }
    }
    fill(&fixture, "c", case.get("setup"))?;
    if let Value::Doc(extra) = case.get("extra") {
        for collection in extra {
            fill(&fixture, &format!("c{}", collection.name()), collection.value())?;
        }
    }
    let docs = run(&fixture, stages);
    Some(match (docs, reply.get("cursor")) {
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

/// Inserts the documents. Returns `None` if the case needs more than documents.
fn fill(fixture: &Fixture, name: &str, docs: Value<'_>) -> Option<()> {
    match docs {
        Value::Missing => Some(()),
        Value::Array(docs) => {
            for doc in docs.iter().filter_map(|d| d.as_doc()) {
                fixture.insert_doc(name, doc).ok()?;
            }
            Some(())
        }
        _ => None,
    }
}

fn run(fixture: &Fixture, stages: Array<'_>) -> Result<Vec<DocBuf>> {
    let request = AggregateRequest::new(&fixture.ns, stages);
    let env = Env::new(&(), NOW_MS);
    drain(aggregate(&fixture.store, &request, &env)?, usize::MAX)
}

fn same_docs(docs: &[DocBuf], cursor: Doc<'_>, case: Doc<'_>) -> std::result::Result<(), String> {
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
    if ours == theirs || cursor.get("more").is_truthy() {
        return Ok(());
    }
    Err(format!("wanted {theirs:?} got {ours:?}"))
}

/// A text that is the same for documents that count as equal.
fn canonical(doc: Doc<'_>, sets: &[&str]) -> String {
    let doc = DocBuf::build(|out| {
        for element in doc {
            match element.value() {
                Value::Array(items) if sets.contains(&element.name()) => {
                    out.array(element.name(), |out| {
                        sorted(items).iter().for_each(|v| out.push(*v));
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
