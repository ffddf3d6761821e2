//! The parser of `$addFields` (field names, nesting, conflicts), and helpers that `$project` shares.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};

use super::{Action, Node};
use crate::apart::{ApartPaths, conflict};
use crate::expr::{Expr, ParseCx, parse_field_path};
use crate::memory;

/// One leaf of a specification: its dotted path and its value.
pub(super) struct Leaf<'v> {
    pub(super) path: String,
    pub(super) value: Value<'v>,
}

/// Adds the name of the stage to an error.
pub(super) fn invalid(stage: &str) -> impl Fn(Error) -> Error {
    let prefix = format!("Invalid {stage} :: caused by :: ");
    move |error| error.context(&prefix)
}

/// Flattens a specification into leaves, in order, and checks names, nesting and conflicts.
pub(super) fn leaves<'v>(spec: Doc<'v>) -> Result<Vec<Leaf<'v>>> {
    if spec.is_empty() {
        bail!(Code::Location(40177), "specification must have at least one field");
    }
    let mut out: Vec<Leaf<'v>> = Vec::new();
    let walked = spec.iter().try_for_each(|element| {
        parse_field_path(element.name())?;
        walk(element.name().to_owned(), element.value(), spec, &mut out)
    });
    // A conflict among the leaves before the failing one is reported first.
    check_apart(&out, spec)?;
    walked?;
    // Each leaf becomes an entry of the tree.
    memory::check_copies(2 * out.len() * size_of::<(Box<str>, Action)>())?;
    Ok(out)
}

fn walk<'v>(path: String, value: Value<'v>, spec: Doc<'v>, out: &mut Vec<Leaf<'v>>) -> Result<()> {
    let Value::Doc(doc) = value else {
        memory::check_list(out)?;
        out.push(Leaf { path, value });
        return Ok(());
    };
    if doc.is_empty() {
        bail!(
            Code::Location(40180),
            "an empty object is not a valid value. Found empty object at path {path}"
        );
    }
    if doc.iter().any(|e| e.name().starts_with('$')) {
        if doc.count() != 1 {
            bail!(
                Code::Location(40181),
                "an expression specification must contain exactly one field, the name of the \
                 expression. Found {} fields in {doc}, while parsing object {spec}",
                doc.count()
            );
        }
        memory::check_list(out)?;
        out.push(Leaf { path, value });
        return Ok(());
    }
    for element in doc {
        let name = element.name();
        if name.contains('.') {
            bail!(
                Code::Location(40183),
                "cannot use dotted field name '{name}' in a sub object: {spec}"
            );
        }
        let path = format!("{path}.{name}");
        parse_field_path(&path)?;
        walk(path, element.value(), spec, out)?;
    }
    Ok(())
}

fn check_apart(leaves: &[Leaf<'_>], spec: Doc<'_>) -> Result<()> {
    let mut paths = ApartPaths::default();
    for (at, leaf) in leaves.iter().enumerate() {
        if paths.insert(&leaf.path) {
            continue;
        }
        let other = leaves[..at].iter().find(|other| conflict(&other.path, &leaf.path));
        bail!(
            Code::Location(40176),
            "specification contains two conflicting paths. Cannot specify both '{}' and '{}': {spec}",
            leaf.path,
            other.map_or("", |other| &*other.path)
        );
    }
    Ok(())
}

/// Adds a computed field to the tree.
pub(super) fn compute(node: &mut Node, leaf: &Leaf<'_>, cx: &mut ParseCx<'_>) -> Result<()> {
    let expr = Expr::parse(leaf.value, cx)?;
    put(node, &leaf.path, Action::Compute(expr));
    Ok(())
}

/// Adds an action at a dotted path.
pub(super) fn put(node: &mut Node, path: &str, action: Action) {
    let parts: Vec<&str> = path.split('.').collect();
    node.insert(&parts, action);
}
