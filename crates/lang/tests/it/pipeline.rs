//! An in-memory pipeline for tests: the stages that this crate implements, over a list of documents.

use std::collections::HashMap;

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, DocWriter, Value, ValueBuf, compare};
use nagi_error::{Error, Result};
use nagi_lang::accum::{AccumSpec, Accumulator, parse_group_key};
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};
use nagi_lang::project::{AddFields, AggProjection, ReplaceRoot};

const NOW_MS: i64 = 1_700_000_000_000;

/// The result of a pipeline; `None` if it has a stage that this crate does not implement.
pub(crate) type Outcome = Option<Result<Vec<DocBuf>>>;

/// Runs `pipeline` over `docs`.
pub(crate) fn run(pipeline: &[Doc<'_>], docs: Vec<DocBuf>) -> Outcome {
    let known = [
        "$project",
        "$addFields",
        "$set",
        "$unset",
        "$replaceRoot",
        "$replaceWith",
        "$group",
        "$limit",
        "$skip",
        "$sort",
    ];
    let mut stages = Vec::new();
    for stage in pipeline {
        let element = stage.first()?;
        if !known.contains(&element.name()) || (element.name() == "$sort" && !sorts_by_id(*stage)) {
            return None;
        }
        stages.push((element.name(), element.value()));
    }
    let mut docs = docs;
    let mut parsed = Vec::new();
    for (name, spec) in stages {
        match parse(name, spec) {
            Ok(stage) => parsed.push(stage),
            Err(error) => return Some(Err(error)),
        }
    }
    for stage in &parsed {
        match apply(stage, docs) {
            Ok(out) => docs = out,
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(docs))
}

fn sorts_by_id(stage: Doc<'_>) -> bool {
    matches!(stage.get("$sort"), Value::Doc(spec) if spec.count() == 1
        && matches!(spec.get("_id"), Value::Int32(1)))
}

enum Stage {
    Project(AggProjection),
    Add(AddFields),
    Replace(ReplaceRoot),
    Group(Expr, Vec<(String, AccumSpec)>),
    Skip(usize),
    Limit(usize),
    Sort,
}

fn parse(name: &str, spec: Value<'_>) -> Result<Stage> {
    let cx = &mut ParseCx::new();
    let count = || nagi_bson::number::as_i64_exact(spec).unwrap_or(0) as usize;
    Ok(match name {
        "$project" => Stage::Project(AggProjection::parse(spec, cx)?),
        "$unset" => Stage::Project(AggProjection::parse_unset(spec)?),
        "$addFields" | "$set" => Stage::Add(AddFields::parse(spec, name, cx)?),
        "$replaceRoot" => Stage::Replace(ReplaceRoot::parse(spec, cx)?),
        "$replaceWith" => Stage::Replace(ReplaceRoot::parse_with(spec, cx)?),
        "$skip" => Stage::Skip(count()),
        "$limit" => Stage::Limit(count()),
        "$sort" => Stage::Sort,
        _ => group(spec, cx)?,
    })
}

fn group(spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Stage> {
    let mut id = None;
    let mut fields = Vec::new();
    for element in spec.as_doc().unwrap_or(Doc::EMPTY) {
        if element.name() == "_id" {
            id = Some(parse_group_key(element.value(), cx)?);
        } else {
            let field = AccumSpec::parse_field(element.name(), element.value(), cx)?;
            fields.push((element.name().to_owned(), field));
        }
    }
    match id {
        Some(id) => Ok(Stage::Group(id, fields)),
        None => Err(Error::new(nagi_error::Code::Location(15955), "no _id")),
    }
}

fn apply(stage: &Stage, mut docs: Vec<DocBuf>) -> Result<Vec<DocBuf>> {
    let mut out = Vec::new();
    for doc in &docs {
        let arena = Bump::new();
        let vars = Vars::EMPTY;
        let cx = Eval::new(doc.as_doc(), &vars, &arena, NOW_MS);
        let mut bytes = Vec::new();
        match stage {
            Stage::Project(stage) => stage.apply(&cx, &mut DocWriter::new(&mut bytes))?,
            Stage::Add(stage) => stage.apply(&cx, &mut DocWriter::new(&mut bytes))?,
            Stage::Replace(stage) => bytes.extend_from_slice(stage.apply(&cx)?.as_bytes()),
            _ => break,
        }
        out.push(DocBuf::from_bytes(bytes).expect("stages write valid documents"));
    }
    match stage {
        Stage::Skip(n) => Ok(docs.into_iter().skip(*n).collect()),
        Stage::Limit(n) => Ok(docs.into_iter().take(*n).collect()),
        Stage::Sort => {
            docs.sort_by(|a, b| compare::values(a.get("_id"), b.get("_id")));
            Ok(docs)
        }
        Stage::Group(id, fields) => apply_group(id, fields, &docs),
        _ => Ok(out),
    }
}

type Group = (ValueBuf, Vec<Box<dyn Accumulator>>);

fn apply_group(id: &Expr, fields: &[(String, AccumSpec)], docs: &[DocBuf]) -> Result<Vec<DocBuf>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
    for doc in docs {
        let arena = Bump::new();
        let vars = Vars::EMPTY;
        let cx = Eval::new(doc.as_doc(), &vars, &arena, NOW_MS);
        let key = id.eval(&cx)?;
        let places = by_hash.entry(compare::hash_of(key)).or_default();
        let found = places.iter().find(|at| compare::equal(groups[**at].0.value(), key)).copied();
        let at = found.unwrap_or_else(|| {
            places.push(groups.len());
            groups.push((
                ValueBuf::new(key),
                fields.iter().map(|(_, spec)| spec.new_state()).collect(),
            ));
            groups.len() - 1
        });
        for (state, (_, spec)) in groups[at].1.iter_mut().zip(fields) {
            state.add(spec.argument().eval(&cx)?)?;
        }
    }
    Ok(groups.iter_mut().map(|(key, states)| finish(key, states, fields)).collect())
}

fn finish(
    key: &ValueBuf,
    states: &mut [Box<dyn Accumulator>],
    fields: &[(String, AccumSpec)],
) -> DocBuf {
    DocBuf::build(|out| {
        out.put("_id", if key.value().is_missing() { Value::Null } else { key.value() });
        for (state, (name, spec)) in states.iter_mut().zip(fields) {
            // Half of the state is written as a partial result and merged again.
            let part = DocBuf::build(|out| state.partial(out.slot("")));
            let mut merged = spec.new_state();
            merged.merge(part.get("")).expect("a state takes its own partial result");
            merged.finish(out.slot(name));
        }
    })
}
