//! Predicate pushdown: moves a `$match` before sorts, and before stages that pass on the values it reads.
//!
//!   [{$project: {a: 1, c: "$b"}}, {$match: {a: 5, c: 7}}]      [{$match: {a: 5, b: 7}}, {$project: ..}]
//!   [{$group: {_id: "$a", ..}}, {$match: {_id: 5}}]            [{$match: {a: 5}}, {$group: ..}]
//!
//! Of a conjunction the movable parts move and the others stay. So conditions reach the plan, where an index may
//! serve them, and later stages process fewer documents. A stage reports the path of its input that has the value
//! of a path of its output (`Stage::source_of`), and the condition is renamed accordingly.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_lang::filter::{Filter, Pred};

use super::{Match, Stage, Stages, Step};

pub(super) fn apply(stages: Stages) -> Stages {
    let mut out = Stages::with_capacity(stages.len());
    for stage in stages {
        match stage.step() {
            // It would stand between stages that are combined.
            Step::Match(matching) if matches!(*matching.filter, Filter::AlwaysTrue) => {}
            Step::Match(matching) => place(&mut out, matching, &stage),
            _ => out.push(stage),
        }
    }
    out
}

/// Puts a `$match` after `before`, or its movable part further to the front.
fn place(before: &mut Stages, matching: &Match, stage: &Arc<dyn Stage>) {
    let Filter::And(parts) = &*matching.filter else {
        let (at, filter) = place_of(&matching.filter, before);
        let moved: Arc<dyn Stage> = match filter {
            Some(filter) => Arc::new(Match::part(filter)),
            None => stage.clone(),
        };
        before.insert(at, moved);
        return;
    };
    let mut placed: Vec<(usize, Vec<Filter>)> = Vec::new();
    let mut renamed = false;
    for part in parts {
        let (at, filter) = place_of(part, before);
        renamed |= filter.is_some();
        let part = filter.unwrap_or_else(|| part.clone());
        match placed.iter_mut().find(|(other, _)| *other == at) {
            Some((_, parts)) => parts.push(part),
            None => placed.push((at, vec![part])),
        }
    }
    if let ([(at, _)], false) = (&placed[..], renamed) {
        before.insert(*at, stage.clone());
        return;
    }
    placed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, mut parts) in placed {
        let filter = if parts.len() == 1 { parts.remove(0) } else { Filter::And(parts) };
        before.insert(at, Arc::new(Match::part(filter)));
    }
}

/// The earliest position of a condition, and the condition with renamed paths if they differ there.
fn place_of(filter: &Filter, before: &Stages) -> (usize, Option<Filter>) {
    let mut renamed: Option<Filter> = None;
    let mut at = before.len();
    while at > 0 {
        match passes(renamed.as_ref().unwrap_or(filter), &*before[at - 1]) {
            Passage::No => break,
            Passage::Same => {}
            Passage::Renamed(filter) => renamed = Some(filter),
        }
        at -= 1;
    }
    (at, renamed)
}

/// The result of moving a condition before a stage.
enum Passage {
    No,
    Same,
    Renamed(Filter),
}

fn passes(filter: &Filter, stage: &dyn Stage) -> Passage {
    if let Step::Sort(_) = stage.step() {
        return Passage::Same;
    }
    let (mut changed, mut asked) = (false, false);
    let mut source = |path: &str, pred: &Pred| {
        asked = true;
        // Before the group it is not known which of several equal values the group shows.
        if stage.makes_equal_one() && !is_by_value(pred) {
            return None;
        }
        let source = stage.source_of(path)?;
        changed |= source != path;
        Some(source)
    };
    let moved = filter.renamed(&mut source);
    // A condition that reads nothing must not keep input from a stage that has output without it.
    if !asked && stage.changes().is_none() {
        return Passage::No;
    }
    match moved {
        None => Passage::No,
        Some(_) if !changed => Passage::Same,
        Some(filter) => Passage::Renamed(filter),
    }
}

/// Returns true if values that compare equal always give the same result.
fn is_by_value(pred: &Pred) -> bool {
    match pred {
        Pred::Compare { value, .. } => {
            // These distinguish a missing field from null.
            !matches!(value.value(), Value::MinKey | Value::MaxKey | Value::Undefined)
        }
        Pred::In(list) => list.patterns().is_empty(),
        _ => false,
    }
}
