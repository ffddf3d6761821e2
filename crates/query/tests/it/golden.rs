//! Text cases under `tests/golden/stages`, `tests/golden/window` and `tests/golden/explain`.
//!
//!   docs [name] [...]      inserts documents (into the collection "c")
//!   create name {...}      creates a collection or a view
//!   index {...}            creates an index
//!   aggregate [...]        runs a pipeline; one document a line
//!   collated {...} [...]   the same with a collation
//!   find {...}             runs a find with filter, sort, projection, skip, limit, hint, min, max
//!   plan {...}             names of the stages of that find's plan from the top
//!   bounds {...}           its index bounds
//!   pipeline [...]         stages of a pipeline as explain shows them, those of its plan first
//!   explain {...}          its plan, with the counters of its run
//!   filters {...}          the filters that its stages test, from the top
//!   examined [...]         the counters of a pipeline's run: its plan, then each `$lookup`
//!   mapReduce {...}        as `pipeline`, for the pipeline of a mapReduce; `out` is a document with a name

use nagi_bson::{Doc, DocBuf, Value, json};
use nagi_query::{
    AggregateRequest, Explained, FindRequest, Hint, MapReduceOut, MapReduceRequest, Verbosity,
    stage_names,
};
use nagi_store::Namespace;
use nagi_testkit::golden;

use crate::fixture::{Fixture, doc, stages};

fn request<'r>(fixture: &'r Fixture, spec: &'r DocBuf) -> FindRequest<'r> {
    let part = |name: &str| spec.get(name).as_doc().unwrap_or(Doc::EMPTY);
    let number = |name: &str| match spec.get(name) {
        Value::Int32(n) => Some(n as u64),
        _ => None,
    };
    FindRequest {
        filter: part("filter"),
        sort: part("sort"),
        projection: part("projection"),
        skip: number("skip").unwrap_or(0),
        limit: number("limit"),
        hint: Hint::parse(spec.get("hint")).unwrap(),
        min: part("min"),
        max: part("max"),
        return_key: spec.get("returnKey").is_truthy(),
        show_record_id: spec.get("showRecordId").is_truthy(),
        ..FindRequest::new(&fixture.ns)
    }
}

fn lines(found: nagi_error::Result<Vec<DocBuf>>) -> String {
    match found {
        Ok(docs) if docs.is_empty() => "(nothing)".to_owned(),
        Ok(docs) => {
            let lines: Vec<String> = docs.iter().map(|d| json::to_relaxed(d.as_doc())).collect();
            lines.join("\n")
        }
        Err(error) => format!("error {error}"),
    }
}

fn array(input: &str) -> DocBuf {
    doc(&format!("{{a: {input}}}"))
}

fn insert(fixture: &Fixture, input: &str) -> String {
    let (name, list) = match input.split_once(' ') {
        Some((name, list)) if !name.starts_with('[') => (name, list),
        _ => ("c", input),
    };
    let wrapped = array(list);
    let Value::Array(docs) = wrapped.get("a") else { return "no array".to_owned() };
    for document in docs.iter() {
        let Value::Doc(document) = document else { return "no document".to_owned() };
        if let Err(error) = fixture.insert_doc(name, document) {
            return format!("error {error}");
        }
    }
    format!("{} inserted", docs.count())
}

fn winning(out: &DocBuf) -> Value<'_> {
    out.get("queryPlanner").as_doc().map_or(Value::Missing, |planner| planner.get("winningPlan"))
}

fn bounds(plan: Value<'_>) -> String {
    let Value::Doc(plan) = plan else { return String::new() };
    if let Value::Doc(bounds) = plan.get("indexBounds") {
        let name = plan.get("indexName").as_str().unwrap_or("");
        return format!("{name} {}", json::to_relaxed(bounds));
    }
    match plan.get("inputStages") {
        Value::Array(inputs) => inputs.iter().map(bounds).collect::<Vec<_>>().join("\n"),
        _ => bounds(plan.get("inputStage")),
    }
}

fn explained(out: &DocBuf) -> String {
    let Value::Doc(stats) = out.get("executionStats") else { return "no statistics".to_owned() };
    let names = ["nReturned", "totalKeysExamined", "totalDocsExamined"];
    format!("{}\n{}", stages(winning(out)), counters(stats, &names))
}

/// The filters that each stage of a plan tests.
fn filters(plan: Value<'_>, out: &mut Vec<String>) {
    match plan {
        Value::Array(plans) => plans.iter().for_each(|plan| filters(plan, out)),
        Value::Doc(plan) => {
            if let (Some(stage), Value::Doc(filter)) =
                (plan.get("stage").as_str(), plan.get("filter"))
            {
                out.push(format!("{stage} {filter}"));
            }
            filters(plan.get("inputStage"), out);
            filters(plan.get("inputStages"), out);
        }
        _ => {}
    }
}

fn counters(stats: Doc<'_>, names: &[&str]) -> String {
    let shown = names.iter().map(|name| format!("{name} {:?}", stats.get(name)));
    shown.collect::<Vec<_>>().join(" ")
}

fn examined(fixture: &Fixture, input: &str) -> String {
    let wrapped = array(input);
    let Value::Array(list) = wrapped.get("a") else { return "no array".to_owned() };
    let request = Explained::Aggregate(AggregateRequest::new(&fixture.ns, list));
    let out = match fixture.try_explain(&request, Verbosity::ExecutionStats) {
        Ok(out) => out,
        Err(error) => return format!("error {error}"),
    };
    let Value::Array(all) = out.get("stages") else { return explained(&out) };
    let mut lines = Vec::new();
    for stage in all.iter().filter_map(|stage| stage.as_doc()) {
        if let Some(cursor) = stage.get("$cursor").as_doc() {
            lines.push(explained(&cursor.to_buf()));
        } else if stage.element("$lookup").is_some() {
            let names = ["totalDocsExamined", "totalKeysExamined", "strategy"];
            lines.push(format!("$lookup {}", counters(stage, &names)));
        }
    }
    lines.join("\n")
}

fn pipeline(fixture: &Fixture, input: &str) -> String {
    let wrapped = array(input);
    let Value::Array(list) = wrapped.get("a") else { return "no array".to_owned() };
    let request = AggregateRequest::new(&fixture.ns, list);
    as_stages(fixture, &Explained::Aggregate(request))
}

fn map_reduce(fixture: &Fixture, input: &str) -> String {
    let spec = doc(input);
    let part = |name: &str| spec.get(name).as_doc().unwrap_or(Doc::EMPTY);
    let out = part("out").first();
    let name = out.and_then(|out| out.value().as_str()).unwrap_or("unused");
    let target = Namespace::new("test", name).unwrap();
    let request = MapReduceRequest {
        collation: nagi_lang::collation::Asked::Inherited,
        namespace: &fixture.ns,
        map: spec.get("map").as_str().unwrap(),
        reduce: spec.get("reduce").as_str().unwrap(),
        finalize: spec.get("finalize").as_str(),
        filter: part("query"),
        sort: part("sort"),
        limit: nagi_bson::number::as_i64_exact(spec.get("limit")).map(|limit| limit as u64),
        out: match out.map_or("", |out| out.name()) {
            "replace" => MapReduceOut::Replace(&target),
            "merge" => MapReduceOut::Merge(&target),
            "reduce" => MapReduceOut::Reduce(&target),
            _ => MapReduceOut::Inline,
        },
        bypass_validation: false,
        options: nagi_query::limits::QueryOptions::DEFAULT,
    };
    as_stages(fixture, &Explained::MapReduce(request))
}

/// The stages of an explained pipeline, one per line.
fn as_stages(fixture: &Fixture, explained: &Explained<'_>) -> String {
    let out = match fixture.try_explain(explained, Verbosity::QueryPlanner) {
        Ok(out) => out,
        Err(error) => return format!("error {error}"),
    };
    let Value::Array(all) = out.get("stages") else { return stages(winning(&out)) };
    let mut lines = Vec::new();
    for stage in all.iter().filter_map(|stage| stage.as_doc()) {
        let cursor = stage.get("$cursor").as_doc().and_then(|c| c.get("queryPlanner").as_doc());
        lines.push(match cursor {
            Some(planner) => {
                format!("{} {}", stages(planner.get("winningPlan")), planner.get("parsedQuery"))
            }
            None => json::to_relaxed(stage),
        });
    }
    lines.join("\n")
}

fn run(fixture: &Fixture, verb: &str, input: &str) -> String {
    match verb {
        "docs" => insert(fixture, input),
        "create" => {
            let (name, options) = input.split_once(' ').unwrap_or((input, "{}"));
            match fixture.create(name, doc(options).as_doc()) {
                Ok(()) => "created".to_owned(),
                Err(error) => format!("error {error}"),
            }
        }
        "index" => match fixture.try_index(input) {
            Ok(()) => "created".to_owned(),
            Err(error) => golden::without_uuids(&format!("error {error}")),
        },
        "aggregate" => lines(fixture.aggregate(input)),
        "collated" => {
            let wrapped = array(&format!("[{}]", input.replacen("} [", "}, [", 1)));
            let Value::Array(parts) = wrapped.get("a") else { return "no array".to_owned() };
            let (Value::Doc(collation), Value::Array(list)) = (parts.get(0), parts.get(1)) else {
                return "no collation and pipeline".to_owned();
            };
            lines(fixture.aggregate_under(collation, list))
        }
        "find" => {
            let spec = doc(input);
            lines(fixture.find(&request(fixture, &spec)))
        }
        "pipeline" => pipeline(fixture, input),
        "mapReduce" => map_reduce(fixture, input),
        "examined" => examined(fixture, input),
        "plan" | "bounds" | "explain" | "filters" => {
            let spec = doc(input);
            let explain = Explained::Find(request(fixture, &spec));
            match fixture.try_explain(&explain, Verbosity::ExecutionStats) {
                Ok(out) if verb == "plan" => stages(winning(&out)),
                Ok(out) if verb == "bounds" => bounds(winning(&out)),
                Ok(out) if verb == "filters" => {
                    let mut tests = Vec::new();
                    filters(winning(&out), &mut tests);
                    tests.join("\n")
                }
                Ok(out) => explained(&out),
                Err(error) => format!("error {error}"),
            }
        }
        other => panic!("unknown verb {other}"),
    }
}

fn run_registry(name: &str) {
    let mut fixture = Fixture::new();
    golden::run_files(&golden::dir(name), &mut |_, verb, input| {
        if verb == "begin" {
            fixture = Fixture::new();
            return String::new();
        }
        run(&fixture, verb, input)
    });
}

#[test]
fn stages_answer_as_written() {
    run_registry("stages");
}

#[test]
fn window_functions_answer_as_written() {
    run_registry("window");
}

#[test]
fn every_window_function_has_a_case_file() {
    let names: Vec<&str> = nagi_lang::window::window_function_names().collect();
    assert!(names.is_sorted(), "the table of window functions is sorted by name");
    let any_type = &[
        "$avg",
        "$covariancePop",
        "$covarianceSamp",
        "$first",
        "$last",
        "$locf",
        "$max",
        "$min",
        "$push",
        "$stdDevPop",
        "$stdDevSamp",
        "$sum",
    ];
    let files = nagi_testkit::rows::Files { language: true, any_type, ..Default::default() };
    nagi_testkit::rows::check("window", names, &files);
}

#[test]
fn plans_are_as_written() {
    run_registry("explain");
}

#[test]
fn every_stage_has_a_case_file() {
    let names: Vec<&str> = stage_names().collect();
    assert!(names.is_sorted(), "the table of stages is searched by name");
    let files = nagi_testkit::rows::Files {
        language: true,
        always_fails: &[
            ("$changeStream", "no replica set is below this crate"),
            ("$changeStreamSplitLargeEvent", "no replica set is below this crate"),
            ("$currentOp", "its answer is the server's: tests/golden/commands/currentOp.txt"),
            ("$listSearchIndexes", "needs a search node"),
            ("$listLocalSessions", "its answer is the server's"),
            ("$listSessions", "its answer is the server's"),
            ("$querySettings", "its answer is the server's"),
            ("$queryStats", "its answer is the server's"),
            ("$search", "needs a search node"),
            ("$searchMeta", "needs a search node"),
            ("$vectorSearch", "needs a search node"),
        ],
        ..Default::default()
    };
    nagi_testkit::rows::check("stages", names, &files);
}
