//! `$match`: passes on the documents that match a filter.

use std::sync::Arc;

use nagi_lang::{
    expr::Deps,
    filter::{Allowed, Filter},
};

use super::prelude::*;
use crate::source::Filtered;

pub(super) static MATCH: StageSpec = StageSpec {
    name: "$match",
    shape: How::Filter,
    parse,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};

/// A parsed `$match`.
pub(crate) struct Match {
    pub(crate) filter: Arc<Filter>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(Code::Location(15959), "the match filter must be an expression in an object");
    };
    let filter = Filter::parse_with(doc, &mut cx.lang(), Allowed::MATCH)?.normalize();
    Ok(Box::new(Match { filter: Arc::new(filter) }))
}

impl Match {
    /// A part of a `$match`, as a stage of its own.
    pub(super) fn part(filter: Filter) -> Match {
        Match { filter: Arc::new(filter) }
    }
}

/// Adds the paths that a filter reads. Returns false if it may read other paths.
fn read_by(filter: &Filter, deps: &mut Deps) -> bool {
    match filter {
        Filter::AlwaysTrue | Filter::AlwaysFalse => true,
        Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
            all.iter().all(|part| read_by(part, deps))
        }
        Filter::Not(inner) => read_by(inner, deps),
        Filter::Field { path, .. } => {
            deps.paths.insert(path.as_str().to_owned());
            true
        }
        _ => false,
    }
}

impl Stage for Match {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Filtered::new(input, self.filter.clone()))
    }

    fn hands_on(&self, deps: &mut Deps) -> bool {
        read_by(&self.filter, deps)
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$match", &self.filter.to_doc());
    }

    fn step(&self) -> Step<'_> {
        Step::Match(self)
    }
}
