//! How often each operator was used: `metrics.operatorCounters`.

use nagi_bson::{Array, Doc, DocWriter, Value};
use nagi_query::{
    Family, family_names, filter_operators, pipeline_operators, projection_operators,
};

use super::Counter;

/// What an argument of a command has operators in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Filter,
    Projection,
    /// A pipeline, or something else without operators.
    Pipeline,
    /// Statements of updates or deletes, or the operations of `bulkWrite`; also in a sequence of documents.
    Statements,
    /// The filter of a command that changes what it finds.
    ChangeFilter,
    /// A command, whose own row says what its arguments have.
    Command,
}

/// The counters of a family, sorted by name.
struct Operators(Box<[(&'static str, Counter)]>);

impl Operators {
    fn new(family: Family) -> Operators {
        let names = family_names(family).into_iter();
        Operators(names.map(|name| (name, Counter::default())).collect())
    }

    fn count(&self, name: &str) {
        if let Ok(at) = self.0.binary_search_by_key(&name, |(known, _)| *known) {
            self.0[at].1.increment();
        }
    }

    fn write(&self, name: &str, out: &mut DocWriter<'_>) {
        out.doc(name, |out| self.0.iter().for_each(|(name, counter)| out.put(name, counter.get())));
    }
}

/// The counters of all operators.
pub(crate) struct OperatorCounters {
    expressions: Operators,
    matches: Operators,
    group: Operators,
    window: Operators,
}

impl Default for OperatorCounters {
    fn default() -> OperatorCounters {
        OperatorCounters {
            expressions: Operators::new(Family::Expressions),
            matches: Operators::new(Family::Match),
            group: Operators::new(Family::GroupAccumulators),
            window: Operators::new(Family::WindowAccumulators),
        }
    }
}

impl OperatorCounters {
    fn family(&self, family: Family) -> &Operators {
        match family {
            Family::Expressions => &self.expressions,
            Family::Match => &self.matches,
            Family::GroupAccumulators => &self.group,
            Family::WindowAccumulators => &self.window,
        }
    }

    /// Counts the operators of a command that ran, in these arguments; `beside` are the statements of a write that are
    /// not in its body. A filter on values of fields costs a look at its fields.
    pub(crate) fn count<'a>(
        &self,
        arguments: &[(&str, Holds)],
        body: Doc<'a>,
        beside: impl Iterator<Item = Doc<'a>>,
    ) {
        let mut visit = |family: Family, name: &str| self.family(family).count(name);
        let visit: &mut dyn FnMut(Family, &str) = &mut visit;
        for (name, holds) in arguments {
            let value = body.get(name);
            match (holds, value) {
                (Holds::Filter, _) => filter(value, visit),
                (Holds::ChangeFilter, _) => change_filter(value, visit),
                (Holds::Projection, Value::Doc(projection)) => {
                    projection_operators(projection, visit);
                }
                (Holds::Pipeline, _) => pipeline(value, visit),
                (Holds::Statements, Value::Array(list)) => {
                    list.iter()
                        .filter_map(|one| one.as_doc())
                        .for_each(|one| statement(one, visit));
                }
                _ => {}
            }
        }
        beside.for_each(|one| statement(one, visit));
    }

    /// Counts the operators of a view's pipeline.
    pub(crate) fn count_pipeline(&self, stages: Array<'_>) {
        pipeline_operators(stages, &mut |family, name| self.family(family).count(name));
    }

    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        self.expressions.write("expressions", out);
        self.group.write("groupAccumulators", out);
        self.matches.write("match", out);
        self.window.write("windowAccumulators", out);
    }
}

fn filter(value: Value<'_>, visit: &mut dyn FnMut(Family, &str)) {
    if let Value::Doc(doc) = value {
        filter_operators(doc, visit);
    }
}

fn pipeline(value: Value<'_>, visit: &mut dyn FnMut(Family, &str)) {
    if let Value::Array(stages) = value {
        pipeline_operators(stages, visit);
    }
}

/// The filter of an update or a delete. MongoDB does not parse one that is only a value of `_id`, so it counts nothing.
fn change_filter(value: Value<'_>, visit: &mut dyn FnMut(Family, &str)) {
    match value {
        Value::Doc(doc) if !is_by_id(doc) => filter_operators(doc, visit),
        _ => {}
    }
}

/// True for `{_id: value}`.
fn is_by_id(filter: Doc<'_>) -> bool {
    let mut elements = filter.iter();
    let (Some(first), None) = (elements.next(), elements.next()) else { return false };
    let has_operators = match first.value() {
        Value::Doc(doc) => doc.first().is_some_and(|first| first.name().starts_with('$')),
        Value::Regex(_) => true,
        _ => false,
    };
    first.name() == "_id" && !has_operators
}

/// A statement of an update or a delete (`q`, `u`), or an operation of `bulkWrite` (`filter`, `updateMods`).
fn statement(statement: Doc<'_>, visit: &mut dyn FnMut(Family, &str)) {
    for (name, changes) in [("q", "u"), ("filter", "updateMods")] {
        change_filter(statement.get(name), visit);
        pipeline(statement.get(changes), visit);
    }
}
