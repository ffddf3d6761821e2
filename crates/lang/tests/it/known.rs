//! Replays recorded answers of the golden set in memory, without a server: filters, updates, projections and sorts.
//! Runs if `NAGI_GOLDEN` names the directory; `NAGI_GOLDEN_SHOW=n` prints n failures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bumpalo::Bump;
use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value, json, number};
use nagi_error::{Error, Result};
use nagi_lang::expr::{Eval, ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx, MatchInfo};
use nagi_lang::project::Projection;
use nagi_lang::sort::SortSpec;
use nagi_lang::update::{Applied, Update, UpdateCx};

const NOW_MS: i64 = 1_700_000_000_000;
const NEW_ID: [u8; 12] = *b"twelve bytes";

/// The outcome of one request.
struct Outcome {
    reply: std::result::Result<Vec<DocBuf>, i32>,
    /// n, nModified and the code of the first write error.
    counts: Option<(i64, i64, Option<i32>)>,
    after: Option<Vec<DocBuf>>,
}

fn docs_of(value: Value<'_>) -> Vec<DocBuf> {
    match value {
        Value::Array(list) => list.iter().filter_map(|v| v.as_doc()).map(|d| d.to_buf()).collect(),
        _ => Vec::new(),
    }
}

fn doc_of(value: Value<'_>) -> DocBuf {
    value.as_doc().unwrap_or(Doc::EMPTY).to_buf()
}

fn matching(docs: &[DocBuf], filter: &Filter) -> Result<Vec<(usize, MatchInfo)>> {
    let mut out = Vec::new();
    for (at, doc) in docs.iter().enumerate() {
        let arena = Bump::new();
        let vars = Vars::EMPTY;
        let cx = MatchCx::new(&vars, &arena, NOW_MS);
        if let Some(info) = filter.matches_with_position(doc.as_doc(), &cx)? {
            out.push((at, info));
        }
    }
    Ok(out)
}

fn sort(docs: &[DocBuf], order: Doc<'_>, found: &mut [(usize, MatchInfo)]) -> Result<()> {
    let spec = SortSpec::parse(order)?;
    let mut keyed = Vec::new();
    for (at, info) in found.iter() {
        let mut key = Vec::new();
        spec.key(docs[*at].as_doc(), &mut key)?;
        keyed.push((key, *at, *info));
    }
    keyed.sort_by(|a, b| spec.compare(&a.0, &b.0));
    for (slot, (_, at, info)) in found.iter_mut().zip(keyed) {
        *slot = (at, info);
    }
    Ok(())
}

fn project(projection: &Projection, doc: &DocBuf, info: MatchInfo) -> Result<DocBuf> {
    let arena = Bump::new();
    let mut bytes = Vec::new();
    {
        let vars = Vars::EMPTY;
        let eval = Eval::new(doc.as_doc(), &vars, &arena, NOW_MS);
        let mut out = DocWriter::new(&mut bytes);
        projection.apply(doc.as_doc(), info, &eval, &mut out)?;
    }
    Ok(DocBuf::from_bytes(bytes).expect("written by DocWriter"))
}

fn whole(value: Value<'_>) -> usize {
    number::truncate_to_i64(value).unwrap_or(0).max(0) as usize
}

fn find(docs: &[DocBuf], request: Doc<'_>) -> Result<Vec<DocBuf>> {
    let mut cx = ParseCx::new();
    let filter = Filter::parse(doc_of(request.get("filter")).as_doc(), &mut cx)?;
    let spec = doc_of(request.get("projection"));
    let projection = Projection::parse_find(spec.as_doc(), Some(&filter), &mut cx)?;
    let filter = filter.normalize();
    let mut found = matching(docs, &filter)?;
    sort(docs, doc_of(request.get("sort")).as_doc(), &mut found)?;
    let limit = match whole(request.get("limit")) {
        0 => usize::MAX,
        limit => limit,
    };
    let found = found.iter().skip(whole(request.get("skip"))).take(limit);
    found.map(|(at, info)| project(&projection, &docs[*at], *info)).collect()
}

fn apply(update: &Update, doc: &DocBuf, info: MatchInfo) -> Result<Option<DocBuf>> {
    let arena = Bump::new();
    let mut bytes = Vec::new();
    let applied = {
        let vars = Vars::EMPTY;
        let cx = UpdateCx::new(&vars, &arena, NOW_MS, &|| 1 << 32);
        update.apply(doc.as_doc(), info, &cx, &mut bytes)?
    };
    Ok((applied == Applied::Modified)
        .then(|| DocBuf::from_bytes(bytes).expect("an update writes valid BSON")))
}

fn upsert(update: &Update, filter: &Filter) -> Result<DocBuf> {
    let arena = Bump::new();
    let mut bytes = Vec::new();
    {
        let vars = Vars::EMPTY;
        let cx = UpdateCx::new(&vars, &arena, NOW_MS, &|| 1 << 32);
        update.upsert_document(filter, &NEW_ID, &cx, &mut bytes)?;
    }
    Ok(DocBuf::from_bytes(bytes).expect("an upsert writes valid BSON"))
}

/// Runs one update statement; returns n and nModified.
fn update_one(docs: &mut Vec<DocBuf>, statement: Doc<'_>) -> Result<(i64, i64)> {
    let mut cx = ParseCx::new();
    let filters = docs_of(statement.get("arrayFilters"));
    let filters: Vec<Doc<'_>> = filters.iter().map(|f| f.as_doc()).collect();
    let update = Update::parse(statement.get("u"), &filters, &mut cx)?;
    let multi = statement.get("multi").is_truthy();
    if multi && update.is_replacement() {
        return Err(Error::new(nagi_error::Code::FAILED_TO_PARSE, "multi replacement"));
    }
    let filter = Filter::parse(doc_of(statement.get("q")).as_doc(), &mut cx)?;
    let filter = filter.normalize();
    if filter.contains_expr() && statement.get("upsert").is_truthy() {
        return Err(Error::new(nagi_error::Code::QUERY_FEATURE_NOT_ALLOWED, "$expr"));
    }
    let mut found = matching(docs, &filter)?;
    if !multi {
        found.truncate(1);
    }
    if found.is_empty() && statement.get("upsert").is_truthy() {
        insert(docs, upsert(&update, &filter)?)?;
        return Ok((1, 0));
    }
    let (mut n, mut modified) = (0, 0);
    for (at, info) in found {
        n += 1;
        if let Some(new) = apply(&update, &docs[at], info)? {
            docs[at] = new;
            modified += 1;
        }
    }
    Ok((n, modified))
}

fn insert(docs: &mut Vec<DocBuf>, doc: DocBuf) -> Result<()> {
    if docs.iter().any(|d| nagi_bson::compare::equal(d.get("_id"), doc.get("_id"))) {
        return Err(Error::new(nagi_error::Code(11000), "duplicate"));
    }
    docs.push(doc);
    Ok(())
}

fn run_update(mut docs: Vec<DocBuf>, request: Doc<'_>) -> Outcome {
    let (mut n, mut modified, mut code) = (0, 0, None);
    for statement in docs_of(request.get("updates")) {
        match update_one(&mut docs, statement.as_doc()) {
            Ok((a, b)) => {
                n += a;
                modified += b;
            }
            Err(error) => {
                code = code.or(Some(error.code().0));
                if !matches!(request.get("ordered"), Value::Bool(false)) {
                    break;
                }
            }
        }
    }
    Outcome { reply: Ok(Vec::new()), counts: Some((n, modified, code)), after: Some(docs) }
}

fn find_and_modify(docs: &mut Vec<DocBuf>, request: Doc<'_>) -> Result<Vec<DocBuf>> {
    let mut cx = ParseCx::new();
    let filters = docs_of(request.get("arrayFilters"));
    let filters: Vec<Doc<'_>> = filters.iter().map(|f| f.as_doc()).collect();
    let update = match request.get("update") {
        Value::Missing => None,
        spec => Some(Update::parse(spec, &filters, &mut cx)?),
    };
    let filter = Filter::parse(doc_of(request.get("query")).as_doc(), &mut cx)?;
    let spec = doc_of(request.get("fields"));
    let projection = Projection::parse_find(spec.as_doc(), Some(&filter), &mut cx)?;
    let filter = filter.normalize();
    let mut found = matching(docs, &filter)?;
    sort(docs, doc_of(request.get("sort")).as_doc(), &mut found)?;
    let new = request.get("new").is_truthy();
    let Some((at, info)) = found.first().copied() else {
        if let (Some(update), true) = (&update, request.get("upsert").is_truthy()) {
            let doc = upsert(update, &filter)?;
            insert(docs, doc.clone())?;
            if new {
                return Ok(vec![project(&projection, &doc, MatchInfo::default())?]);
            }
        }
        return Ok(Vec::new());
    };
    let old = docs[at].clone();
    match update {
        Some(update) => {
            let made = apply(&update, &old, info)?.unwrap_or(old.clone());
            let shown = if new { &made } else { &old };
            let value = project(&projection, shown, info)?;
            docs[at] = made;
            Ok(vec![value])
        }
        None => {
            let value = project(&projection, &old, info)?;
            docs.remove(at);
            Ok(vec![value])
        }
    }
}

/// Returns true if the case uses only features of this crate.
fn wanted(case: Doc<'_>) -> bool {
    let until = match case.get("until") {
        Value::String(text) => text.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0),
        _ => 99,
    };
    let Value::Doc(request) = case.get("request") else { return false };
    let text = request.to_string();
    let foreign = ["collation", "$near", "$geo", "$within", "$text", "$where", "$meta"];
    until >= 8
        && case.get("reply").as_doc().is_some()
        && case.get("create").is_missing()
        && case.get("indexes").is_missing()
        && case.get("extract").is_missing()
        && !foreign.iter().any(|word| text.contains(word))
}

fn run(case: Doc<'_>) -> Option<Outcome> {
    let request = case.get("request").as_doc()?;
    let mut docs = docs_of(case.get("setup"));
    let plain = ["filter", "projection", "sort", "skip", "limit", "find"];
    match request.first()?.name() {
        "find" if request.iter().all(|e| plain.contains(&e.name())) => {
            if request.get("filter").as_doc().is_none() && !request.get("filter").is_missing() {
                return None;
            }
            let reply = find(&docs, request).map_err(|e| e.code().0);
            Some(Outcome { reply, counts: None, after: None })
        }
        "update" => Some(run_update(docs, request)),
        "findAndModify" | "findandmodify" => {
            let reply = find_and_modify(&mut docs, request).map_err(|e| e.code().0);
            Some(Outcome { reply, counts: None, after: Some(docs) })
        }
        _ => None,
    }
}

fn int(value: Value<'_>) -> i64 {
    number::truncate_to_i64(value).unwrap_or(0)
}

fn check(case: Doc<'_>, outcome: &Outcome) -> std::result::Result<(), String> {
    let reply = case.get("reply").as_doc().unwrap_or(Doc::EMPTY);
    let expected = int(reply.get("code")) as i32;
    match &outcome.reply {
        Err(code) if expected == *code => return Ok(()),
        Err(code) => return Err(format!("code {code}, expected {expected}")),
        Ok(_) if expected != 0 => return Err(format!("no error, expected {expected}")),
        Ok(found) => {
            if let Value::Doc(cursor) = reply.get("cursor") {
                let wanted = docs_of(cursor.get("firstBatch"));
                same_list(&wanted, found, case.get("unordered").is_truthy())?;
            } else if let Value::Doc(value) = reply.get("value") {
                same_list(&[value.to_buf()], found, false)?;
            }
        }
    }
    if let Some((n, modified, code)) = outcome.counts {
        let first = reply.get("writeErrors").as_array().unwrap_or(Array::EMPTY).get(0);
        let expected = first.as_doc().map(|e| int(e.get("code")) as i32);
        if code != expected {
            return Err(format!("write error {code:?}, expected {expected:?}"));
        }
        if n != int(reply.get("n")) || modified != int(reply.get("nModified")) {
            return Err(format!("n {n} nModified {modified}"));
        }
    }
    match (&outcome.after, case.get("after")) {
        (Some(after), Value::Array(list)) => {
            same_list(&docs_of(Value::Array(list)), after, true).map_err(|e| format!("after: {e}"))
        }
        _ => Ok(()),
    }
}

fn same_list(a: &[DocBuf], b: &[DocBuf], unordered: bool) -> std::result::Result<(), String> {
    let shown = || format!("expected {a:?} got {b:?}");
    if a.len() != b.len() {
        return Err(shown());
    }
    if !unordered {
        let same = a.iter().zip(b).all(|(a, b)| same(a.into(), b.into()));
        return if same { Ok(()) } else { Err(shown()) };
    }
    let mut used = vec![false; b.len()];
    for doc in a {
        let at = (0..b.len()).find(|at| !used[*at] && same(doc.into(), (&b[*at]).into()));
        match at {
            Some(at) => used[at] = true,
            None => return Err(shown()),
        }
    }
    Ok(())
}

fn same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Doc(a), b) if !a.get("$any").is_missing() => {
            let name = a.get("$any").as_str().unwrap_or("");
            name == b.kind().name() || (name == "decimal" && b.kind().name() == "decimal")
        }
        (Value::Doc(a), Value::Doc(b)) => {
            a.count() == b.count()
                && a.iter()
                    .zip(b.iter())
                    .all(|(a, b)| a.name() == b.name() && same(a.value(), b.value()))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.count() == b.count() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        (Value::Double(a), Value::Double(b)) if a.is_nan() => b.is_nan(),
        (a, b) => a.same_bytes(&b),
    }
}

#[test]
fn known_answers() {
    let Some(folder) = std::env::var_os("NAGI_GOLDEN").map(PathBuf::from) else { return };
    let show: usize =
        std::env::var("NAGI_GOLDEN_SHOW").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let only = std::env::var("NAGI_GOLDEN_ONLY").unwrap_or_default();
    let mut shown = 0;
    let (mut passed, mut failed) = (0, 0);
    let mut groups: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for area in ["filter", "update", "project", "sort"] {
        let file = folder.join("known").join(format!("{area}.jsonl"));
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for line in text.lines() {
            let case = json::parse(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let case = case.as_doc();
            let id = case.get("id").as_str().unwrap_or("").to_owned();
            if !wanted(case) || !id.contains(&only) {
                continue;
            }
            let Some(outcome) = run(case) else { continue };
            let group = id.rsplit_once('/').map_or(id.clone(), |(group, _)| group.to_owned());
            let count = groups.entry(group).or_default();
            match check(case, &outcome) {
                Ok(()) => {
                    passed += 1;
                    count.0 += 1;
                }
                Err(why) => {
                    failed += 1;
                    count.1 += 1;
                    if shown < show {
                        shown += 1;
                        println!(
                            "{id}: {why}\n  setup {}\n  request {}\n  reply {}",
                            case.get("setup"),
                            case.get("request"),
                            case.get("reply")
                        );
                    }
                }
            }
        }
    }
    for (group, (passed, failed)) in groups.iter().filter(|(_, count)| count.1 > 0) {
        println!("{group}: {passed} passed, {failed} failed");
    }
    println!("known answers: {passed} passed, {failed} failed");
    assert!(passed * 100 >= (passed + failed) * 96, "{failed} of the known answers differ");
}
