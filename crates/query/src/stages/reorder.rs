//! A better order for the stages of a pipeline: conditions first.
//!
//! A `$match` goes before sorts, and before stages that only change paths it does not look at. Of a
//! conjunction the parts that can go do, the others stay. So conditions reach the plan, where an index
//! may serve them, and later stages see fewer documents.

use std::sync::Arc;

use nagi_lang::filter::Filter;

use super::{Match, Stage, Step};

/// The same pipeline with its `$match` stages as early as they can be.
pub(super) fn reorder(stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    let mut out: Vec<Arc<dyn Stage>> = Vec::with_capacity(stages.len());
    for stage in stages {
        match stage.step() {
            Step::Match(matching) => place(&mut out, matching, &stage),
            _ => out.push(stage),
        }
    }
    out
}

/// Puts a `$match` behind `before`, or its movable part further to the front.
fn place(before: &mut Vec<Arc<dyn Stage>>, matching: &Match, stage: &Arc<dyn Stage>) {
    let passed = |filter: &Filter, at: usize| passes(filter, &*before[at]);
    let place_of = |filter: &Filter| {
        (0..before.len()).rev().take_while(|at| passed(filter, *at)).last().unwrap_or(before.len())
    };
    let Filter::And(parts) = &*matching.filter else {
        let at = place_of(&matching.filter);
        before.insert(at, stage.clone());
        return;
    };
    let mut placed: Vec<(usize, Vec<Filter>)> = Vec::new();
    for part in parts {
        let at = place_of(part);
        match placed.iter_mut().find(|(other, _)| *other == at) {
            Some((_, parts)) => parts.push(part.clone()),
            None => placed.push((at, vec![part.clone()])),
        }
    }
    if let [(at, _)] = placed[..] {
        before.insert(at, stage.clone());
        return;
    }
    placed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, mut parts) in placed {
        let filter = if parts.len() == 1 { parts.remove(0) } else { Filter::And(parts) };
        before.insert(at, Arc::new(Match::part(filter)));
    }
}

/// Whether the condition may be tested before the stage instead of after it.
fn passes(filter: &Filter, stage: &dyn Stage) -> bool {
    if let Step::Sort(_) = stage.step() {
        return true;
    }
    let Some(changed) = stage.changes() else { return false };
    let Some(paths) = paths(filter) else { return false };
    !paths.iter().any(|path| changed.iter().any(|other| overlap(path, other)))
}

/// The paths a filter looks at; none if it may look at others.
fn paths(filter: &Filter) -> Option<Vec<&str>> {
    fn collect<'f>(filter: &'f Filter, out: &mut Vec<&'f str>) -> bool {
        match filter {
            Filter::AlwaysTrue | Filter::AlwaysFalse => true,
            Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
                all.iter().all(|part| collect(part, out))
            }
            Filter::Not(inner) => collect(inner, out),
            Filter::Field { path, .. } => {
                out.push(path.as_str());
                true
            }
            _ => false,
        }
    }
    let mut out = Vec::new();
    collect(filter, &mut out).then_some(out)
}

/// Whether one path leads to or through the other.
fn overlap(a: &str, b: &str) -> bool {
    a.split('.').zip(b.split('.')).all(|(a, b)| a == b)
}
