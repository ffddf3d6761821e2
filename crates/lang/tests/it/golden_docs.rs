//! The golden cases in `tests/golden/{filter,update,project,sort}`, one file per operator, and in
//! `tests/golden/semantics`, one file per rule.
//!
//! Verbs: `doc` and `docs` set documents. `match` prints the ids of matching documents, `position` also the array
//! position, `normal` the normal form. `where` sets the filter that an update or a projection uses, `filters` the
//! array filters. `update`, `upsert`, `project` print the new document; the field `new` of an `upsert` is the
//! supplied document.

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, DocWriter, Value, ValueBuf, json};
use nagi_error::{Error, Result};
use nagi_lang::expr::{Eval, ParseCx, Vars};
use nagi_lang::filter::{Allowed, Filter, MatchCx, MatchInfo};
use nagi_lang::project::Projection;
use nagi_lang::sort::SortSpec;
use nagi_lang::update::{Applied, Update, UpdateCx, upsert_supplied};
use nagi_testkit::golden;

const NOW_MS: i64 = 1_700_000_000_000;
const NEW_ID: [u8; 12] = *b"twelve bytes";

/// The state that the verbs of one file have set.
#[derive(Default)]
struct State {
    docs: Vec<DocBuf>,
    filter: DocBuf,
    filters: Vec<DocBuf>,
}

fn check(registry: &str) {
    let mut state = State::default();
    golden::run_files(&golden::dir(registry), &mut |_, verb, input| {
        if verb == "begin" {
            state = State::default();
            return String::new();
        }
        let value = match json::parse_value(input) {
            Ok(value) => value,
            Err(error) => return format!("unreadable: {error}"),
        };
        run(&mut state, verb, &value).unwrap_or_else(|error: Error| format!("error {error}"))
    });
}

fn run(state: &mut State, verb: &str, value: &ValueBuf) -> Result<String> {
    let doc = value.value().as_doc().unwrap_or(Doc::EMPTY);
    match verb {
        "doc" => state.docs = vec![doc.to_buf()],
        "docs" => state.docs = docs_of(value.value()),
        "where" => state.filter = doc.to_buf(),
        "filters" => state.filters = docs_of(value.value()),
        "match" => return matching(&state.docs, doc, false),
        "position" => return matching(&state.docs, doc, true),
        "normal" => {
            let filter =
                Filter::parse_with(doc, &mut ParseCx::new(), Allowed::WITH_NEAR)?.normalize();
            return Ok(filter.to_string());
        }
        "update" => return update(state, value.value()),
        "upsert" => return upsert(doc),
        "project" => return project(state, doc),
        "sort" => return sort(&state.docs, doc),
        _ => return Ok(format!("unknown verb {verb}")),
    }
    Ok("ok".into())
}

fn docs_of(value: Value<'_>) -> Vec<DocBuf> {
    let list = value.as_array().unwrap_or(nagi_bson::Array::EMPTY);
    list.iter().filter_map(|v| v.as_doc()).map(|d| d.to_buf()).collect()
}

fn info(filter: &Filter, doc: &DocBuf) -> Result<Option<MatchInfo>> {
    let scripts = nagi_js::Session::new();
    let (arena, vars) = (Bump::new(), Vars::EMPTY.with_scripts(Some(&scripts)));
    filter.matches_with_position(doc.as_doc(), &MatchCx::new(&vars, &arena, NOW_MS))
}

fn matching(docs: &[DocBuf], filter: Doc<'_>, positions: bool) -> Result<String> {
    let filter = Filter::parse_with(filter, &mut ParseCx::new(), Allowed::WITH_NEAR)?;
    let normal = filter.clone().normalize();
    let mut out = Vec::new();
    for doc in docs {
        let found = info(&filter, doc)?;
        assert_eq!(found.is_some(), info(&normal, doc)?.is_some(), "normal form of {filter}");
        if let Some(found) = found {
            let id = doc.get("_id");
            out.push(match found.position.filter(|_| positions) {
                Some(position) => format!("{id} at {position}"),
                None => id.to_string(),
            });
        }
    }
    Ok(if out.is_empty() { "none".into() } else { out.join(", ") })
}

fn update(state: &State, spec: Value<'_>) -> Result<String> {
    let mut cx = ParseCx::new();
    let filters: Vec<Doc<'_>> = state.filters.iter().map(|f| f.as_doc()).collect();
    let update = Update::parse(spec, &filters, &mut cx)?;
    let filter = Filter::parse(state.filter.as_doc(), &mut cx)?;
    let doc = &state.docs[0];
    let found = info(&filter, doc)?.unwrap_or_default();
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, NOW_MS, &|| 7 << 32);
    let mut out = Vec::new();
    match update.apply(doc.as_doc(), found, &cx, &mut out)? {
        Applied::NoOp => Ok("no change".into()),
        Applied::Modified => Ok(shown(out)),
    }
}

fn shown(bytes: Vec<u8>) -> String {
    let doc = DocBuf::from_bytes(bytes).expect("what is written is valid BSON");
    json::to_relaxed(doc.as_doc())
}

fn upsert(spec: Doc<'_>) -> Result<String> {
    let mut cx = ParseCx::new();
    let update = Update::parse(spec.get("u"), &[], &mut cx)?;
    let filter = Filter::parse(spec.get("q").as_doc().unwrap_or(Doc::EMPTY), &mut cx)?;
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, NOW_MS, &|| 7 << 32);
    let mut out = Vec::new();
    match spec.get("new") {
        Value::Doc(new) => upsert_supplied(new, &filter, &NEW_ID, &cx, &mut out)?,
        _ => update.upsert_document(&filter, &NEW_ID, &cx, &mut out)?,
    }
    Ok(shown(out))
}

fn project(state: &State, spec: Doc<'_>) -> Result<String> {
    let mut cx = ParseCx::new();
    let filter = Filter::parse(state.filter.as_doc(), &mut cx)?;
    let projection = Projection::parse_find(spec, Some(&filter), &mut cx)?;
    let doc = &state.docs[0];
    let found = info(&filter, doc)?.unwrap_or_default();
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let eval = Eval::new(doc.as_doc(), &vars, &arena, NOW_MS);
    let mut out = Vec::new();
    let mut writer = DocWriter::new(&mut out);
    projection.apply(doc.as_doc(), found, &eval, &mut writer)?;
    writer.finish();
    Ok(shown(out))
}

fn sort(docs: &[DocBuf], spec: Doc<'_>) -> Result<String> {
    let spec = SortSpec::parse(spec)?;
    let mut keyed = Vec::new();
    for doc in docs {
        let mut key = Vec::new();
        spec.key(doc.as_doc(), &mut key)?;
        keyed.push((key, doc.get("_id").to_string()));
    }
    keyed.sort_by(|a, b| spec.compare(&a.0, &b.0));
    Ok(keyed.into_iter().map(|(_, id)| id).collect::<Vec<_>>().join(", "))
}

#[test]
fn golden_cases_of_filters() {
    check("filter");
}

#[test]
fn golden_cases_of_updates() {
    check("update");
}

#[test]
fn golden_cases_of_projections() {
    check("project");
}

#[test]
fn golden_cases_of_sorts() {
    check("sort");
}

#[test]
fn golden_cases_of_rules() {
    check("semantics");
}

#[test]
fn every_rule_of_the_language_has_cases() {
    let kinds = ["query-semantics", "projection", "sort", "collation", "update-semantics"];
    // Rules that only a server can show.
    let elsewhere = [
        ("q.sem.parser_type", "golden/commands/find.txt", "'find.filter' is the wrong type 'int'"),
        ("sort.limit", "golden/explain/sort.txt", "limit: 2, skip: 1"),
        ("sort.index", "golden/explain/sort.txt", "IXSCAN"),
        ("coll.spec", "golden/commands/collation.txt", "locale"),
        ("coll.inherit", "golden/commands/collation.txt", "OptionNotSupportedOnView"),
        ("coll.scope", "golden/commands/collation.txt", "distinct"),
        ("coll.icu", "golden/commands/collation.txt", "CollationKey(0x"),
        ("u.size_limit", "drivers/pymongo/limits.py", "17419"),
        ("u.multi", "golden/commands/update.txt", "multi: true"),
        ("u.sort", "golden/commands/update.txt", "sort: {b: -1}"),
        ("u.pipeline.upsertsupplied", "golden/update/upsertSupplied.txt", "error "),
    ];
    nagi_testkit::rows::check_rules(&kinds, &elsewhere);
}
