//! How often each operator was used: `metrics.operatorCounters`.

use nagi_bson::{Array, Doc, DocWriter, Value};
use nagi_query::{
    Family, family_names, filter_operators, pipeline_operators, projection_operators,
};

use super::Counter;

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

    /// Counts the operators of a command that ran; `beside` are the statements of a write that are not in its body. A
    /// filter on values of fields costs a look at its fields.
    pub(crate) fn count<'a>(
        &self,
        command: &str,
        body: Doc<'a>,
        beside: impl Iterator<Item = Doc<'a>>,
    ) {
        let mut visit = |family: Family, name: &str| self.family(family).count(name);
        let visit: &mut dyn FnMut(Family, &str) = &mut visit;
        match command {
            "find" => {
                filter(body.get("filter"), visit);
                if let Value::Doc(projection) = body.get("projection") {
                    projection_operators(projection, visit);
                }
            }
            "aggregate" => pipeline(body.get("pipeline"), visit),
            "count" | "distinct" => filter(body.get("query"), visit),
            "findAndModify" => {
                filter(body.get("query"), visit);
                pipeline(body.get("update"), visit);
            }
            "delete" => statements(body.get("deletes"), beside, visit),
            "update" => statements(body.get("updates"), beside, visit),
            _ => {}
        }
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

fn statements<'a>(
    list: Value<'a>,
    beside: impl Iterator<Item = Doc<'a>>,
    visit: &mut dyn FnMut(Family, &str),
) {
    let list = list.as_array().unwrap_or(Array::EMPTY);
    for statement in list.iter().filter_map(|value| value.as_doc()).chain(beside) {
        filter(statement.get("q"), visit);
        pipeline(statement.get("u"), visit);
    }
}
