//! Tries the indexes that are to be advised, on a sample of their collection.
//!
//! All candidates of a collection are built on one sample, and one after another is shown to the planner, together with
//! the indexes for the other branches of `$or`, which is of no use with one of them. The examples of the slow
//! operations are explained without the index and with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_query::{Estimate, HYPOTHETICAL_INDEXES_MAX, Hypothesis, Side};
use nagi_store::Namespace;

use super::create::Shape;
use super::ways::cost;
use crate::advice::Candidate;
use crate::clock;
use crate::commands::crud::try_on_sample;
use crate::core::command::Sampled;
use crate::core::command::prelude::*;

/// After this time nothing more is tried.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Limit of the time for one example, without the index and with it.
const EXAMPLE_TIME_MAX: Duration = Duration::from_secs(5);
/// Limit of the examples that are explained for each index.
const EXAMPLES_MAX: usize = 4;
/// An index must make the operations examine so many times less.
const RATIO_MIN: f64 = 2.0;
/// Sorting counts if at least one of so many documents that are read is sorted.
const SORTED_MIN: f64 = 4.0;

/// Ends the trials when their time is over.
pub(super) struct Clock {
    end: Option<Instant>,
}

impl Clock {
    /// `measures`: false if nothing is to be tried.
    pub(super) fn start(measures: bool) -> Clock {
        Clock { end: measures.then(|| clock::now() + TIME_MAX) }
    }

    /// The reason why nothing more is tried.
    fn over(&self) -> Option<&'static str> {
        match self.end {
            None => Some("measure is false"),
            Some(end) if clock::now() >= end => Some("the time for measuring was over"),
            Some(_) => None,
        }
    }

    /// Runs `work` with a deadline of its own: the end of the time for trials, at most `most` from now, and never
    /// later than that of the whole command.
    fn within<R>(
        &self,
        cx: &mut Context<'_>,
        most: Duration,
        work: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        let given = cx.deadline;
        let own = clock::now() + most;
        cx.deadline = [given, self.end, Some(own)].into_iter().flatten().min();
        cx.op.watch_waits(cx.deadline);
        let done = work(cx);
        cx.deadline = given;
        cx.op.watch_waits(given);
        done
    }
}

/// What became of a trial.
pub(super) enum Outcome {
    Measured(Measured),
    /// With the reason.
    NotMeasured(String),
    /// The index cannot be built, with the reason.
    Impossible(String),
}

/// The figures of an index on a sample. Those of operations are averages of the examples, weighted by how often their
/// shapes occurred.
pub(super) struct Measured {
    sample: DocBuf,
    expected_bytes: u64,
    is_multikey: bool,
    present: Estimate,
    with: Estimate,
    present_plans: Vec<String>,
    with_plans: Vec<String>,
    /// How many times less the operations examine.
    pub(super) ratio: f64,
    is_used: bool,
    /// Shapes that were tried and do not use the index (positions in the caller's list).
    unused_by: Vec<usize>,
}

impl Outcome {
    /// Why the index is not advised.
    pub(super) fn refusal(&self) -> Option<String> {
        let measured = match self {
            Outcome::Measured(measured) => measured,
            Outcome::Impossible(reason) => return Some(format!("it cannot be built: {reason}")),
            Outcome::NotMeasured(_) => return None,
        };
        if !measured.is_used {
            return Some("no plan used it".to_owned());
        }
        if measured.ratio < RATIO_MIN && !measured.avoids_sort() {
            let text = "the operations would examine only";
            return Some(format!("{text} {:.1} times less", measured.ratio));
        }
        let (present, with) = (&measured.present, &measured.with);
        if with.sorts && !present.sorts && cost(present) < RATIO_MIN * cost(with) {
            return Some(
                "the operations would sort in memory what they do not sort now".to_owned(),
            );
        }
        None
    }
}

impl Measured {
    /// True if operations sort in memory without the index, and not with it, and sorting is much of their work: to
    /// sort a few documents is cheaper than to read all in order.
    pub(super) fn avoids_sort(&self) -> bool {
        let read = self.present.docs_examined.max(self.present.keys_examined);
        self.present.sorts && !self.with.sorts && self.present.sorted * SORTED_MIN >= read
    }

    /// False if the shape at this position of the caller's list was tried, and its plan is without the index.
    pub(super) fn may_serve(&self, shape: usize) -> bool {
        !self.unused_by.contains(&shape)
    }

    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        out.extend(self.sample.as_doc());
        out.put("expectedSizeBytes", i64::try_from(self.expected_bytes).unwrap_or(i64::MAX));
        out.put("isMultiKey", self.is_multikey);
        let side = |estimate: &Estimate, plans: &[String], out: &mut DocWriter<'_>| {
            estimate.write(out);
            out.array("plans", |out| plans.iter().for_each(|plan| out.push(plan.as_str())));
        };
        out.doc("present", |out| side(&self.present, &self.present_plans, out));
        out.doc("withIndex", |out| side(&self.with, &self.with_plans, out));
        out.put("examinedRatio", self.ratio);
    }
}

/// Tries each candidate; returns as many outcomes.
///
/// # Errors
/// Only those that end the whole command: it was killed, or its time is over.
pub(super) fn measure(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, candidates, shapes): (&Namespace, &[Candidate], &[&Shape]),
    clock: &Clock,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(candidates.len());
    for part in candidates.chunks(HYPOTHETICAL_INDEXES_MAX) {
        match sampled(cx, ns, part, clock)? {
            Err(reason) => {
                outcomes.extend(part.iter().map(|_| Outcome::NotMeasured(reason.clone())));
            }
            Ok(hypothesis) => {
                for candidate in part {
                    let name = candidate.name();
                    let refused = hypothesis.refused().iter().find(|(own, _)| *own == name);
                    outcomes.push(match refused {
                        Some((_, reason)) => Outcome::Impossible(reason.clone()),
                        None => {
                            let tried = (ns, candidate, part, shapes);
                            try_one(cx, req, tried, &hypothesis, clock)?
                        }
                    });
                }
            }
        }
    }
    Ok(outcomes)
}

/// A sample with the candidates, or why there is none.
pub(super) fn sampled(
    cx: &mut Context<'_>,
    ns: &Namespace,
    candidates: &[Candidate],
    clock: &Clock,
) -> Result<std::result::Result<Arc<Hypothesis>, String>> {
    if let Some(reason) = clock.over() {
        return Ok(Err(reason.to_owned()));
    }
    if !cx.asking().on_collection(ns.database(), ns.collection(), Action::Find) {
        return Ok(Err("the user may not read the collection".to_owned()));
    }
    let specs: Vec<DocBuf> = candidates.iter().map(specification).collect();
    let specs: Vec<Doc<'_>> = specs.iter().map(DocBuf::as_doc).collect();
    let made = clock.within(cx, TIME_MAX, |cx| {
        let watch = cx.watch();
        let env = cx.env(&watch).with_scans_refused(false);
        let started = cx.started;
        let clock_ms = || (clock::micros_since(started) / 1000) as i64;
        Hypothesis::of_buildable(cx.store(), ns, &specs, &env, &clock_ms)
    });
    or_reason(cx, made).map(|made| made.map(Arc::new))
}

/// An error that concerns only this trial becomes its reason.
fn or_reason<T>(cx: &Context<'_>, outcome: Result<T>) -> Result<std::result::Result<T, String>> {
    match outcome {
        Ok(done) => Ok(Ok(done)),
        Err(error) => {
            cx.check()?;
            Ok(Err(error.message().to_owned()))
        }
    }
}

fn specification(candidate: &Candidate) -> DocBuf {
    DocBuf::build(|out| {
        out.doc("key", |out| {
            candidate.fields().iter().for_each(|(path, direction)| out.put(path, *direction));
        });
        out.put("name", candidate.name().as_str());
    })
}

/// The names of the indexes of `part` that the shape at `at` needs.
fn needed_by(at: usize, part: &[Candidate]) -> Vec<String> {
    part.iter().filter(|one| one.served.contains(&at)).map(Candidate::name).collect()
}

/// Explains the example of a shape without the indexes of these names and with them, or tells why it cannot.
pub(super) fn sides(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, shape, indexes): (&Namespace, &Shape, Vec<String>),
    hypothesis: &Arc<Hypothesis>,
    clock: &Clock,
) -> Result<std::result::Result<(Side, Side), String>> {
    if let Some(over) = clock.over() {
        return Ok(Err(over.to_owned()));
    }
    let Some(query) = &shape.query else {
        return Ok(Err("no operation of these shapes can be explained".to_owned()));
    };
    if shape.joins {
        return Ok(Err("what it reads of another collection is in no plan".to_owned()));
    }
    if query.runs_scripts() {
        return Ok(Err("operations that run JavaScript are not tried".to_owned()));
    }
    let trial = Sampled { hypothesis: Arc::clone(hypothesis), indexes, sides: None };
    let command = query.command.as_doc();
    let own = u64::try_from(query.max_time_ms).ok().filter(|millis| *millis > 0);
    let most = own.map_or(EXAMPLE_TIME_MAX, Duration::from_millis).min(EXAMPLE_TIME_MAX);
    let tried =
        clock.within(cx, most, |cx| try_on_sample(cx, (req, ns.database()), command, trial));
    Ok(match or_reason(cx, tried)? {
        Ok(Some(sides)) => Ok(sides),
        Ok(None) => Err("the user may not run the operation".to_owned()),
        Err(text) => Err(text),
    })
}

fn try_one(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (ns, candidate, part, shapes): (&Namespace, &Candidate, &[Candidate], &[&Shape]),
    hypothesis: &Arc<Hypothesis>,
    clock: &Clock,
) -> Result<Outcome> {
    let name = candidate.name();
    let mut sums = Sums::default();
    let mut reason = "no operation of these shapes can be explained".to_owned();
    let served = candidate.served.iter().filter_map(|at| Some((*at, shapes.get(*at)?)));
    for (at, shape) in served.take(EXAMPLES_MAX) {
        let trial = (ns, *shape, needed_by(at, part));
        match sides(cx, req, trial, hypothesis, clock)? {
            Ok((present, with)) => {
                if !with.used.contains(&name) {
                    sums.unused_by.push(at);
                    continue;
                }
                sums.is_used = true;
                sums.add(shape.slow.count as f64, (&present.estimate, &with.estimate));
                keep(&mut sums.plans.0, present.summary);
                keep(&mut sums.plans.1, with.summary);
            }
            Err(text) => reason = text,
        }
    }
    let indexes = hypothesis.indexes()?;
    match indexes.into_iter().find(|index| index.name == name) {
        Some(index) if sums.weight > 0.0 || !sums.unused_by.is_empty() => {
            let (present, with) = sums.means();
            Ok(Outcome::Measured(Measured {
                sample: DocBuf::build(|out| hypothesis.sample().write(out)),
                expected_bytes: index.expected_bytes,
                is_multikey: index.is_multikey,
                ratio: with.gain_over(&present),
                present,
                with,
                present_plans: sums.plans.0,
                with_plans: sums.plans.1,
                is_used: sums.is_used,
                unused_by: sums.unused_by,
            }))
        }
        _ => Ok(Outcome::NotMeasured(reason)),
    }
}

fn keep(plans: &mut Vec<String>, plan: String) {
    if !plans.contains(&plan) {
        plans.push(plan);
    }
}

/// The sums of figures, each times the number of its operations.
#[derive(Default)]
struct Sums {
    weight: f64,
    present: Estimate,
    with: Estimate,
    plans: (Vec<String>, Vec<String>),
    is_used: bool,
    unused_by: Vec<usize>,
}

impl Sums {
    fn add(&mut self, weight: f64, (present, with): (&Estimate, &Estimate)) {
        self.weight += weight;
        for (sum, one) in [(&mut self.present, present), (&mut self.with, with)] {
            sum.returned += weight * one.returned;
            sum.keys_examined += weight * one.keys_examined;
            sum.docs_examined += weight * one.docs_examined;
            sum.sorts |= one.sorts;
            sum.sorted += weight * one.sorted;
        }
    }

    fn means(&self) -> (Estimate, Estimate) {
        let weight = if self.weight > 0.0 { self.weight } else { 1.0 };
        let mean = |sum: &Estimate| Estimate {
            returned: sum.returned / weight,
            keys_examined: sum.keys_examined / weight,
            docs_examined: sum.docs_examined / weight,
            sorts: sum.sorts,
            sorted: sum.sorted / weight,
        };
        (mean(&self.present), mean(&self.with))
    }
}
