//! Reads, replaces and creates values at dotted paths of plain objects.

use std::sync::Arc;

use nagi_lang::{
    expr::{Deps, Expr},
    project::{Action, Mode, Node},
};

use super::prelude::*;

/// The components of a field path.
pub(super) fn components(path: &str) -> Result<Box<[Box<str>]>> {
    nagi_lang::expr::parse_field_path(path)?;
    Ok(path.split('.').map(Box::from).collect())
}

/// The value at a path of plain objects; missing if an array is on the path.
pub(super) fn value_at<'a>(doc: Doc<'a>, path: &[Box<str>]) -> Value<'a> {
    let mut value = Value::Doc(doc);
    for name in path {
        let Value::Doc(inner) = value else { return Value::Missing };
        value = inner.get(name);
    }
    value
}

/// Writes `doc` with the value at `path` replaced (or removed if `value` is missing). The path leads through
/// objects only; missing objects on it are created.
pub(super) fn write_replaced(
    out: &mut DocWriter<'_>,
    doc: Doc<'_>,
    path: &[Box<str>],
    value: Value<'_>,
) {
    let (name, rest) = path.split_first().expect("a field path has a component");
    let mut seen = false;
    for element in doc {
        if seen || element.name() != &**name {
            out.put(element.name(), element.value());
            continue;
        }
        seen = true;
        write_field(out, name, element.value(), rest, value);
    }
    if !seen && !value.is_missing() {
        write_field(out, name, Value::Missing, rest, value);
    }
}

fn write_field(
    out: &mut DocWriter<'_>,
    name: &str,
    old: Value<'_>,
    rest: &[Box<str>],
    value: Value<'_>,
) {
    if rest.is_empty() {
        out.put(name, value);
    } else {
        let inner = old.as_doc().unwrap_or(Doc::EMPTY);
        out.doc(name, |out| write_replaced(out, inner, rest, value));
    }
}

/// Returns true if one path is a prefix of the other, or both are equal.
pub(super) fn overlap(a: &str, b: &str) -> bool {
    a.split('.').zip(b.split('.')).all(|(a, b)| a == b)
}

/// The path from which a projection or `$addFields` copies the value at `path`: a field that it includes or leaves
/// unchanged, or a top-level field that it renames.
pub(super) fn copied(root: &Node, path: &str) -> Option<String> {
    // A number may be an array position, which projections inside an array change.
    let placed = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match (root.get(first), root.mode()) {
        (None, Mode::Include) => None,
        (None, Mode::Exclude | Mode::Add) | (Some(Action::Include), _) => Some(path.to_owned()),
        (Some(Action::Compute(Expr::Path(from))), _) => {
            let from = from.dotted();
            let plain = !from.contains('.') && !placed(&from);
            plain.then(|| if rest.is_empty() { from } else { format!("{from}.{rest}") })
        }
        (Some(Action::Nested(inner)), Mode::Include)
            if !rest.split('.').any(placed) && includes(inner, rest) =>
        {
            Some(path.to_owned())
        }
        _ => None,
    }
}

/// Returns true if the fields on the path are included unchanged.
fn includes(node: &Node, path: &str) -> bool {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match node.get(first) {
        Some(Action::Include) => true,
        Some(Action::Nested(inner)) => includes(inner, rest),
        _ => false,
    }
}

/// The paths that stages read, if one of them replaces the whole document and the stages before it state the paths
/// that they read.
pub(super) fn needed(stages: &[Arc<dyn Stage>]) -> Option<Vec<String>> {
    for (at, stage) in stages.iter().enumerate() {
        let mut deps = Deps::default();
        if stage.needs(&mut deps) {
            let all = stages[..at].iter().rev().all(|stage| stage.hands_on(&mut deps));
            return (all && !deps.whole).then(|| deps.paths.into_iter().collect());
        }
        if !stage.hands_on(&mut Deps::default()) {
            return None;
        }
    }
    None
}
