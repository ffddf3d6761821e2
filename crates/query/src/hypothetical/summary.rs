//! What is read of an explained plan: its parts, its leaves, the indexes that it uses.

use nagi_bson::{Doc, Value, text};

use super::estimate::inputs;

/// `queryPlanner` and `executionStats` of an explained command, or of the plan below its pipeline.
pub(super) fn parts<'d>(shown: Doc<'d>) -> Option<(Doc<'d>, Doc<'d>)> {
    let of =
        |doc: Doc<'d>| doc.get("queryPlanner").as_doc().zip(doc.get("executionStats").as_doc());
    let below = || {
        let Value::Array(stages) = shown.get("stages") else { return None };
        of(stages.iter().next()?.as_doc()?.get("$cursor").as_doc()?)
    };
    of(shown).or_else(below)
}

/// The leaves of a plan with the keys of their indexes, as the log of slow operations shows them.
pub(super) fn of(plan: Doc<'_>) -> String {
    let mut leaves: Vec<String> = Vec::new();
    each(plan, &mut |stage| {
        if !inputs(stage).is_empty() {
            return;
        }
        let name = stage.get("stage").as_str().unwrap_or("");
        let leaf = match stage.get("keyPattern") {
            Value::Doc(key) => format!("{name} {}", text::doc_text(key)),
            Value::String(key) => format!("{name} {key}"),
            _ => name.to_owned(),
        };
        if !leaves.contains(&leaf) {
            leaves.push(leaf);
        }
    });
    leaves.join(", ")
}

/// The names of the indexes that a plan uses.
pub(super) fn indexes(plan: Doc<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    each(plan, &mut |stage| {
        if let Value::String(name) = stage.get("indexName")
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    });
    names
}

fn each(stage: Doc<'_>, visit: &mut dyn FnMut(Doc<'_>)) {
    visit(stage);
    inputs(stage).into_iter().for_each(|input| each(input, visit));
}
