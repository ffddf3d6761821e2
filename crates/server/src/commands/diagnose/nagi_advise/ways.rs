//! The ways to answer a slow shape by new indexes, and which of them is the best one on a sample.

use nagi_query::{AggregateRequest, Estimate, HYPOTHETICAL_INDEXES_MAX};
use nagi_store::{Collection, Namespace};

use super::create::Shape;
use super::drop;
use super::trial::{self, Clock};
use crate::advice::{Candidate, Key, Needed, Query, beginning, needed, serves};
use crate::core::command::prelude::*;
use crate::limits::OP_COMMAND_BYTES_MAX;

/// Documents read for each one returned; an index is not advised if it is less.
const RATIO_MIN: f64 = 2.0;
/// A smaller collection needs no index for a join.
const JOINED_MIN: f64 = 1000.0;
/// A way must be so many times cheaper than one that is more usual.
const CHEAPER_MIN: f64 = 1.5;

/// A shape that needs indexes.
pub(super) struct Wanted {
    pub(super) shape: Shape,
    /// Each is one or more indexes that do not exist; the usual best first.
    pub(super) ways: Vec<Vec<Key>>,
    /// The reason not to advise an index if none of the ways is better than an index that exists.
    pub(super) served_by: Option<String>,
}

/// The indexes that a shape needs, or why no index is advised. `measures`: the ways will be tried.
pub(super) fn wanted(
    shape: &Shape,
    (ns, collection): (&Namespace, Option<&Collection>),
    measures: bool,
) -> std::result::Result<Wanted, String> {
    let slow = &shape.slow;
    let Some(query) = &shape.query else {
        return Err(match shape.is_cut() {
            true => format!(
                "the command is longer than {} KiB, and only its beginning is kept",
                OP_COMMAND_BYTES_MAX >> 10
            ),
            false => "the command has no filter".to_owned(),
        });
    };
    let Some(collection) = collection else {
        return Err("the collection does not exist any more".to_owned());
    };
    if collection.is_view() || collection.options.timeseries.is_some() {
        return Err("it reads a view or a time series".to_owned());
    }
    let returned = slow.returned.max(slow.count).max(1);
    if slow.docs_examined as f64 / returned as f64 <= RATIO_MIN && !slow.sorts {
        return Err(
            "few documents are read for each one returned: the time is spent elsewhere".into()
        );
    }
    if query.command.as_doc().element("collation").is_some() {
        return Err("it has a collation of its own, which the index would need, too".to_owned());
    }
    let (filter, sort) = answerable(ns, query);
    let all = match needed(filter.as_doc(), sort.as_doc()) {
        Needed::Indexes(ways) => ways,
        Needed::None(why) => return Err(why.to_owned()),
    };
    let existing = usable(collection, false);
    let missing = |key: &Key| existing.iter().all(|(_, fields)| !serves(fields, key));
    let by = |indexes: &[(String, Fields)], keys: &[Key]| -> Option<String> {
        let mut serving =
            indexes.iter().filter(|(_, fields)| keys.iter().any(|key| serves(fields, key)));
        serving.next().map(|(name, _)| name.clone())
    };
    let mut served_by = None;
    let mut ways: Vec<Vec<Key>> = Vec::new();
    for keys in all {
        match keys.iter().any(missing) {
            true => ways.push(keys.into_iter().filter(missing).collect()),
            false => {
                served_by.get_or_insert_with(|| {
                    let name = by(&existing, &keys).unwrap_or_default();
                    format!("the index {name} begins with the fields that it needs")
                });
            }
        }
    }
    // A guess is no reason to build an index beside one that can be used.
    match served_by {
        Some(reason) if ways.is_empty() || !measures => return Err(reason),
        _ => {}
    }
    if let Some(name) = ways.first().and_then(|keys| by(&usable(collection, true), keys)) {
        return Err(format!(
            "the index {name} has the fields that it needs, but is hidden: unhide it"
        ));
    }
    Ok(Wanted { shape: shape.clone(), ways, served_by })
}

/// What a stage reads of another collection: its name, and the filter and sort with which it does.
fn reads<'d>(stage: Doc<'d>) -> Option<(&'d str, DocBuf, DocBuf)> {
    let of = |name: &str| stage.get(name).as_doc();
    let joined = of("$lookup").map(|join| (join, "foreignField"));
    let joined = joined.or_else(|| of("$graphLookup").map(|join| (join, "connectToField")));
    if let Some((join, field)) = joined {
        let path = join.get(field).as_str()?;
        let filter = DocBuf::build(|out| out.put(path, 1));
        return Some((join.get("from").as_str()?, filter, DocBuf::new()));
    }
    let union = of("$unionWith")?;
    let (filter, sort) = beginning(union.get("pipeline").as_array()?);
    Some((union.get("coll").as_str()?, filter, sort))
}

/// True if a shape's pipeline reads other collections, too.
pub(super) fn reads_others(shape: &Shape) -> bool {
    let Some(query) = &shape.query else { return false };
    let Value::Array(pipeline) = query.command.as_doc().get("pipeline") else { return false };
    let is_other = |stage: Doc<'_>| {
        let others = ["$lookup", "$graphLookup", "$unionWith"];
        others.iter().any(|name| stage.element(name).is_some())
    };
    pipeline.iter().filter_map(|stage| stage.as_doc()).any(is_other)
}

/// The index that the first `$lookup`, `$graphLookup` or `$unionWith` of a shape's pipeline needs in the collection
/// that it reads, if what the shape reads shows that it reads all of that. Its gain is not measured: such reads are in
/// no plan.
/// `own_reads`: how many documents of its own collection it may have read.
pub(super) fn joined(
    cx: &Context<'_>,
    ns: &Namespace,
    shape: &Shape,
    own_reads: i64,
) -> Option<(Namespace, Wanted)> {
    let slow = &shape.slow;
    let command = shape.query.as_ref()?.command.as_doc();
    let Value::Array(pipeline) = command.get("pipeline") else { return None };
    let mut stages = pipeline.iter().filter_map(|stage| stage.as_doc());
    let before_groups = stages.by_ref().take_while(|stage| stage.element("$group").is_none());
    let (from, filter, sort) = before_groups.filter_map(reads).next()?;
    let ns = Namespace::new(ns.database(), from).ok()?;
    let collection = cx.store().collection(&ns)?;
    if collection.is_view()
        || collection.options.timeseries.is_some()
        || ns.collection().starts_with("system.")
        || command.element("collation").is_some()
    {
        return None;
    }
    let Needed::Indexes(ways) = needed(filter.as_doc(), sort.as_doc()) else { return None };
    let existing = usable(&collection, false);
    // None can be tried.
    let way = ways.into_iter().next()?;
    let each = |figure: u64| figure as f64 / slow.count.max(1) as f64;
    let all = collection.count() as f64;
    let reads_all = all >= JOINED_MIN && each(slow.docs_examined) >= all + own_reads as f64;
    if !reads_all
        || each(slow.returned) * RATIO_MIN > all
        || way.iter().any(|key| existing.iter().any(|(_, fields)| serves(fields, key)))
    {
        return None;
    }
    let mut shape = shape.clone();
    shape.joins = true;
    Some((ns, Wanted { shape, ways: vec![way], served_by: None }))
}

/// What an index can answer of a query. The planner moves conditions of a pipeline to its beginning.
fn answerable(ns: &Namespace, query: &Query) -> (DocBuf, DocBuf) {
    let command = query.command.as_doc();
    if let Value::Array(pipeline) = command.get("pipeline") {
        let request = AggregateRequest {
            let_vars: command.get("let").as_doc().unwrap_or(Doc::EMPTY),
            ..AggregateRequest::new(ns, pipeline)
        };
        if let Ok(head) = nagi_query::pipeline_head(&request, crate::clock::wall_ms()) {
            return head;
        }
    }
    (query.filter.clone(), query.order())
}

type Fields = Vec<(String, i32)>;

/// The indexes that any query of the collection's collation can use, or could if they were not hidden.
fn usable(collection: &Collection, hidden: bool) -> Vec<(String, Fields)> {
    collection
        .ready_indexes()
        .filter(|index| {
            let spec = &index.spec;
            spec.kind.facts().by_value
                && !spec.sparse
                && spec.hidden == hidden
                && spec.partial.is_none()
                && spec.collation == collection.options.collation
        })
        .map(|index| (index.name().to_owned(), drop::fields(&index.spec)))
        .collect()
}

/// Leaves each shape the best of its ways, as far as there is time to try them.
///
/// # Errors
/// Only those that end the whole command.
pub(super) fn choose(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, all): (&Namespace, &mut [Wanted]),
    clock: &Clock,
) -> Result<()> {
    // As many shapes as fit share a sample.
    let (mut part, mut members): (Vec<Candidate>, Vec<usize>) = (Vec::new(), Vec::new());
    for at in 0..all.len() {
        if all[at].ways.len() < 2 {
            continue;
        }
        limit(&mut all[at].ways);
        let own = candidates(at, &all[at].ways);
        let more: Vec<Candidate> = own.into_iter().filter(|one| !has(&part, one)).collect();
        if part.len() + more.len() > HYPOTHETICAL_INDEXES_MAX {
            choose_among(cx, req, (ns, all), (&part, &members), clock)?;
            (part, members) = (candidates(at, &all[at].ways), Vec::new());
        } else {
            part.extend(more);
        }
        members.push(at);
    }
    choose_among(cx, req, (ns, all), (&part, &members), clock)?;
    all.iter_mut().for_each(|wanted| wanted.ways.truncate(1));
    Ok(())
}

fn has(part: &[Candidate], one: &Candidate) -> bool {
    part.iter().any(|own| own.name() == one.name())
}

/// The different indexes of all ways.
fn candidates(at: usize, ways: &[Vec<Key>]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for key in ways.iter().flatten() {
        let one = Candidate::new(at, key.clone());
        if !has(&all, &one) {
            all.push(one);
        }
    }
    all
}

/// Leaves out the last ways if there are more indexes than one sample can have.
fn limit(ways: &mut Vec<Vec<Key>>) {
    while candidates(0, ways).len() > HYPOTHETICAL_INDEXES_MAX && ways.len() > 1 {
        ways.pop();
    }
}

/// Chooses for the shapes at `members`, whose indexes are in `part`.
fn choose_among(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, all): (&Namespace, &mut [Wanted]),
    (part, members): (&[Candidate], &[usize]),
    clock: &Clock,
) -> Result<()> {
    if members.is_empty() {
        return Ok(());
    }
    let Ok(hypothesis) = trial::sampled(cx, ns, part, clock)? else { return Ok(()) };
    for at in members {
        let Wanted { shape, ways, .. } = &mut all[*at];
        let mut best: Option<(usize, f64)> = None;
        for (way, keys) in ways.iter().enumerate() {
            let names: Vec<String> =
                keys.iter().map(|key| Candidate::new(0, key.clone()).name()).collect();
            if hypothesis.refused().iter().any(|(name, _)| names.contains(name)) {
                continue;
            }
            let trial = (ns, &*shape, names.clone());
            let Ok((_, with)) = trial::sides(cx, req, trial, &hypothesis, clock)? else { continue };
            let cost = cost(&with.estimate);
            let is_used = names.iter().all(|name| with.used.contains(name));
            if is_used && best.is_none_or(|(_, least)| cost * CHEAPER_MIN < least) {
                best = Some((way, cost));
            }
        }
        if let Some((way, _)) = best {
            *ways = vec![ways.swap_remove(way)];
        }
    }
    Ok(())
}

/// The work of a plan: what it examines, and what it sorts in memory.
pub(super) fn cost(estimate: &Estimate) -> f64 {
    (estimate.examined() + estimate.sorted).max(1.0)
}

/// The ways that are left to the shape at `at` of `ways`, as some indexes cannot be built: those from which an index
/// was merged, and those without one of the fields. None if the shape needs none of them.
pub(super) fn narrower(at: usize, ways: &[Vec<Key>], impossible: &[Candidate]) -> Vec<Vec<Key>> {
    let Some(keys) = ways.first() else { return Vec::new() };
    let mut left: Vec<Vec<Key>> = vec![Vec::new()];
    let mut is_narrower = false;
    for key in keys {
        let is_own = |one: &&Candidate| one.needed().contains(&(at, key.clone()));
        let mut others = vec![key.clone()];
        if let Some(candidate) = impossible.iter().find(is_own) {
            is_narrower = true;
            others.extend(key.shorter());
            if candidate.name() == Candidate::new(at, key.clone()).name() {
                others.remove(0);
            }
        }
        let with = |other: &Key| -> Vec<Vec<Key>> {
            left.iter().map(|way| [way.as_slice(), std::slice::from_ref(other)].concat()).collect()
        };
        left = others.iter().flat_map(with).collect();
        limit(&mut left);
    }
    if is_narrower { left } else { Vec::new() }
}
