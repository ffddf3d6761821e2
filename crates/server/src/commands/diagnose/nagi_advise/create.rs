//! Which indexes would help: from the shapes of slow operations.

use std::collections::BTreeMap;

use nagi_store::Namespace;

use super::Scope;
use super::trial::{self, Outcome};
use super::ways::{Wanted, choose, joined, narrower, reads_others, wanted};
use crate::advice::{Candidate, Query, is_cut, merge};
use crate::core::command::prelude::*;
use crate::metrics::slow_shapes::SlowShape;

/// Limit of the indexes that are advised.
const ADVICE_MAX: usize = 40;
/// The gain of an index is told from this on.
const RATIO_MIN: f64 = 2.0;

/// A shape with what was read of its example.
#[derive(Clone)]
pub(super) struct Shape {
    pub(super) slow: SlowShape,
    /// None if its example is missing, or of another kind.
    pub(super) query: Option<Query>,
    /// The index is for another collection that it reads.
    pub(super) joins: bool,
}

/// An index that would help.
pub(super) struct Advice {
    ns: Namespace,
    candidate: Candidate,
    shapes: Vec<Shape>,
    outcome: Outcome,
}

/// A shape that no index is advised for.
pub(super) struct NotAdvised {
    shape: Shape,
    reason: String,
}

/// All of it.
pub(super) struct Found {
    shape_count: usize,
    operation_count: u64,
    left_out: u64,
    pub(super) advice: Vec<Advice>,
    /// At most one for each of the shapes that the metrics keep.
    pub(super) not_advised: Vec<NotAdvised>,
}

/// Finds the indexes that slow operations need, and tries them.
pub(super) fn find(cx: &mut Context<'_>, req: &Request<'_>, scope: &Scope<'_>) -> Result<Found> {
    let (slow, left_out) = cx.server.metrics.slow_shapes.queries();
    let mut found = Found {
        shape_count: 0,
        operation_count: 0,
        left_out,
        advice: Vec::new(),
        not_advised: Vec::new(),
    };
    let mut by_collection: BTreeMap<String, Vec<Wanted>> = BTreeMap::new();
    for slow in slow {
        let Ok(ns) = Namespace::parse(&slow.ns) else { continue };
        if !scope.has(ns.database(), ns.collection()) {
            continue;
        }
        let collection = cx.store().collection(&ns);
        if slow.shape == 0 && collection.is_none() {
            // It reads the server's state, or what is gone.
            continue;
        }
        found.shape_count += 1;
        found.operation_count += slow.count;
        let example = slow.example.as_ref();
        let query = example.and_then(|e| Query::of(&slow.name, ns.collection(), e.as_doc()));
        let shape = Shape { slow, query, joins: false };
        let mut add = |ns: Namespace, wanted| {
            by_collection.entry(ns.as_str().to_owned()).or_default().push(wanted);
        };
        let wanted = wanted(&shape, (&ns, collection.as_deref()), scope.measures);
        // A scan of its own collection may be all that it reads.
        let own = match &wanted {
            Ok(_) => collection.as_ref().map_or(0, |collection| collection.count()),
            Err(_) => 0,
        };
        let other = joined(cx, &ns, &shape, own);
        match wanted {
            Ok(wanted) => add(ns, wanted),
            Err(reason) if other.is_none() => found.not_advised.push(NotAdvised { shape, reason }),
            Err(_) => {}
        }
        if let Some((ns, wanted)) = other {
            add(ns, wanted);
        }
    }
    let clock = trial::Clock::start(scope.measures);
    let mut groups: Vec<_> = by_collection.into_iter().collect();
    groups.sort_by_key(|(_, shapes)| {
        std::cmp::Reverse(shapes.iter().map(|wanted| wanted.shape.slow.total_micros).sum::<u64>())
    });
    for (ns, shapes) in groups {
        let ns = Namespace::parse(&ns)?;
        advise_on(cx, req, (&ns, shapes), &clock, &mut found)?;
    }
    found.advice.sort_by_key(|advice| std::cmp::Reverse(advice.total_micros()));
    found.advice.truncate(ADVICE_MAX);
    found.not_advised.sort_by_key(|row| std::cmp::Reverse(row.shape.slow.total_micros));
    Ok(found)
}

/// What is known of the shapes of a collection while their indexes are tried.
struct Verdicts {
    served: Vec<bool>,
    /// Why an index is not advised for them.
    reasons: Vec<Option<String>>,
}

/// Chooses and merges the keys of a collection's shapes, tries the indexes, and adds the outcome to `found`.
///
/// An index may be impossible: two of its fields are arrays in one document, or a key is too long. What it was merged
/// from is then tried in a second round, and then without one of the fields.
fn advise_on(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, mut all): (&Namespace, Vec<Wanted>),
    clock: &trial::Clock,
    found: &mut Found,
) -> Result<()> {
    let mut verdicts = Verdicts { served: vec![false; all.len()], reasons: vec![None; all.len()] };
    let impossible = try_all(cx, req, (ns, &mut all), clock, (found, &mut verdicts))?;
    if !impossible.is_empty() {
        for (at, wanted) in all.iter_mut().enumerate() {
            wanted.ways = match verdicts.served[at] {
                true => Vec::new(),
                false => narrower(at, &wanted.ways, &impossible),
            };
        }
        try_all(cx, req, (ns, &mut all), clock, (found, &mut verdicts))?;
    }
    let left = all.into_iter().zip(verdicts.served).zip(verdicts.reasons);
    for ((wanted, _), reason) in left.filter(|((_, served), _)| !served) {
        let reason = wanted.served_by.or(reason);
        let reason = reason.unwrap_or_else(|| "no index that was tried helps".to_owned());
        found.not_advised.push(NotAdvised { shape: wanted.shape, reason });
    }
    Ok(())
}

/// Tries what the shapes need, and returns the indexes that cannot be built.
fn try_all(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, all): (&Namespace, &mut [Wanted]),
    clock: &trial::Clock,
    (found, verdicts): (&mut Found, &mut Verdicts),
) -> Result<Vec<Candidate>> {
    choose(cx, req, (ns, all), clock)?;
    let needed = all.iter().enumerate().flat_map(|(at, wanted)| {
        let keys = wanted.ways.first().into_iter().flatten();
        keys.map(move |key| (at, key.clone())).collect::<Vec<_>>()
    });
    let candidates = merge(needed);
    let shapes: Vec<&Shape> = all.iter().map(|wanted| &wanted.shape).collect();
    let outcomes = trial::measure(cx, req, (ns, &candidates, &shapes), clock)?;
    let mut impossible = Vec::new();
    // A shape with several branches is evidence for several indexes; its figures go with each.
    for (candidate, outcome) in candidates.into_iter().zip(outcomes) {
        let refusal = outcome.refusal();
        let uses = |at: &usize| match &outcome {
            Outcome::Measured(measured) => measured.may_serve(*at),
            Outcome::NotMeasured(_) | Outcome::Impossible(_) => true,
        };
        let (with, without): (Vec<usize>, Vec<usize>) =
            candidate.served.iter().copied().partition(|at| refusal.is_none() && uses(at));
        let reason = refusal.as_deref().unwrap_or("its plan did not use it");
        for at in without {
            let tried = || format!("the index {} was tried: {reason}", candidate.name());
            verdicts.reasons[at].get_or_insert_with(tried);
        }
        with.iter().for_each(|at| verdicts.served[*at] = true);
        if matches!(outcome, Outcome::Impossible(_)) {
            impossible.push(candidate);
        } else if !with.is_empty() {
            let shapes = with.into_iter().map(|at| shapes[at].clone()).collect();
            found.add(Advice { ns: ns.clone(), candidate, shapes, outcome });
        }
    }
    Ok(impossible)
}

impl Shape {
    /// True if only the beginning of its commands is kept, or nothing.
    pub(super) fn is_cut(&self) -> bool {
        self.slow.example.as_ref().is_none_or(|example| is_cut(example.as_doc()))
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        let slow = &self.slow;
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        out.put("ns", slow.ns.as_str());
        out.put("operation", slow.name.as_str());
        // With the names of a pipeline's stages, without which several rows would look alike.
        out.put("shape", slow.text.as_str());
        if slow.shape != 0 {
            out.put("planCacheShapeHash", format!("{:08X}", slow.shape).as_str());
        }
        if slow.stages != 0 {
            out.put("stagesHash", format!("{:08X}", slow.stages).as_str());
        }
        out.put("count", number(slow.count));
        out.put("totalMillis", number(slow.total_micros / 1000));
        out.put("slowestMillis", number(slow.slowest_micros / 1000));
        out.put("keysExamined", number(slow.keys_examined));
        out.put("docsExamined", number(slow.docs_examined));
        out.put("nReturned", number(slow.returned));
        out.put("sortsInMemory", slow.sorts);
        out.array("plans", |out| slow.plans.iter().for_each(|plan| out.push(plan.as_str())));
        out.put("last", Value::DateTime(slow.last_ms));
    }
}

impl Found {
    /// Adds an index, or the shapes that it serves if it is there: the second round may need it, too.
    fn add(&mut self, advice: Advice) {
        let name = advice.candidate.name();
        let is_same = |own: &&mut Advice| own.ns == advice.ns && own.candidate.name() == name;
        match self.advice.iter_mut().find(is_same) {
            Some(own) => own.shapes.extend(advice.shapes),
            None => self.advice.push(advice),
        }
    }

    /// Writes how many operations the advice is based on.
    pub(super) fn write_counts(&self, out: &mut DocWriter<'_>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        out.doc("slowOperations", |out| {
            out.put("shapes", self.shape_count as i64);
            out.put("operations", number(self.operation_count));
            out.put("leftOut", number(self.left_out));
        });
    }
}

impl Advice {
    fn total_micros(&self) -> u64 {
        self.shapes.iter().map(|shape| shape.slow.total_micros).sum()
    }

    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        let fields = self.candidate.fields();
        let name = self.candidate.name();
        let key = DocBuf::build(|out| {
            fields.iter().for_each(|(path, direction)| out.put(path, *direction));
        });
        out.put("kind", "createIndex");
        out.put("ns", self.ns.as_str());
        out.put("name", name.as_str());
        out.put("key", &key);
        out.put("reason", self.reason().as_str());
        out.doc("command", |out| {
            out.put("createIndexes", self.ns.collection());
            out.array("indexes", |out| {
                out.doc(|out| {
                    out.put("key", &key);
                    out.put("name", name.as_str());
                });
            });
        });
        match &self.outcome {
            Outcome::Measured(measured) => out.doc("measured", |out| measured.write(out)),
            Outcome::NotMeasured(reason) | Outcome::Impossible(reason) => {
                out.put("notMeasured", reason.as_str());
            }
        }
        out.array("shapes", |list| {
            self.shapes.iter().for_each(|shape| list.doc(|out| shape.write(out)));
        });
    }

    fn reason(&self) -> String {
        let sum = |of: fn(&SlowShape) -> u64| -> u64 {
            self.shapes.iter().map(|shape| of(&shape.slow)).sum()
        };
        let count = sum(|slow| slow.count);
        let seconds = sum(|slow| slow.total_micros) as f64 / 1e6;
        let read = read_for(sum(|slow| slow.docs_examined), sum(|slow| slow.returned));
        let sorted = match self.shapes.iter().any(|shape| shape.slow.sorts) {
            true => " and sorted in memory",
            false => "",
        };
        let gain = match &self.outcome {
            Outcome::Measured(measured) => gain(measured.ratio, measured.avoids_sort()),
            Outcome::NotMeasured(_) | Outcome::Impossible(_) => String::new(),
        };
        let others = match self.shapes.iter().any(|shape| !shape.joins && reads_others(shape)) {
            true if !gain.is_empty() => ", without what they read of other collections",
            _ => "",
        };
        format!("{count} slow operations took {seconds:.1} s; they {read}{sorted}{gain}{others}")
    }
}

/// What an index gains that lets operations examine `ratio` times less.
fn gain(ratio: f64, avoids_sort: bool) -> String {
    match (ratio >= RATIO_MIN, avoids_sort) {
        (true, true) => format!(
            "; with the index they would examine {ratio:.0} times less and not sort in memory"
        ),
        (false, true) => "; with the index they would not sort in memory".to_owned(),
        (_, false) => format!("; with the index they would examine {ratio:.0} times less"),
    }
}

#[test]
fn the_gain_of_a_sort_is_said_so() {
    assert_eq!(gain(1.0, true), "; with the index they would not sort in memory");
    assert!(gain(40.0, true).ends_with("examine 40 times less and not sort in memory"));
    assert!(gain(40.0, false).ends_with("examine 40 times less"));
}

/// What operations read for what they returned or changed.
fn read_for(docs: u64, returned: u64) -> String {
    match docs.checked_div(returned) {
        Some(each) => format!("read {each} documents for each one returned"),
        None => format!("read {docs} documents and returned none"),
    }
}

#[test]
fn nothing_returned_is_said_so() {
    assert_eq!(read_for(60, 3), "read 20 documents for each one returned");
    assert_eq!(read_for(3_760_000, 0), "read 3760000 documents and returned none");
}

impl NotAdvised {
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("reason", self.reason.as_str());
        self.shape.write(out);
    }
}
