//! `$project` and `$unset`: which fields stay, which go, which are computed.

use nagi_bson::{DocWriter, Value};
use nagi_error::{Code, Result, bail};

use super::parse::{Leaf, compute, invalid, leaves, put};
use super::{Action, Mode, Node};
use crate::expr::{Deps, Eval, ParseCx, parse_field_path};

/// A parsed `$project`.
#[derive(Debug, Clone)]
pub struct AggProjection {
    root: Node,
}

impl AggProjection {
    /// Parses the specification of `$project`.
    pub fn parse(spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<AggProjection> {
        let Value::Doc(doc) = spec else {
            bail!(Code::Location(15969), "$project specification must be an object");
        };
        let leaves = leaves(doc).map_err(invalid("$project"))?;
        let mode = mode(&leaves, spec)?;
        let mut root = Node::new(mode);
        if mode == Mode::Include && !leaves.iter().any(|l| is_id(&l.path)) {
            put(&mut root, "_id", Action::Include);
        }
        for leaf in &leaves {
            match kind(leaf.value) {
                Kind::Include => put(&mut root, &leaf.path, Action::Include),
                Kind::Exclude if mode == Mode::Exclude || leaf.path != "_id" => {
                    put(&mut root, &leaf.path, Action::Exclude);
                }
                Kind::Exclude => {}
                Kind::Compute => compute(&mut root, leaf, cx).map_err(invalid("$project"))?,
            }
        }
        Ok(AggProjection { root })
    }

    /// Parses the argument of `$unset`: a field name or an array of them.
    pub fn parse_unset(spec: Value<'_>) -> Result<AggProjection> {
        let mut root = Node::new(Mode::Exclude);
        let mut add = |value: Value<'_>| match value {
            Value::String(path) => {
                parse_field_path(path).map_err(invalid("$unset"))?;
                put(&mut root, path, Action::Exclude);
                Ok(())
            }
            _ => bail!(
                Code::Location(31120),
                "$unset specification must be a string or an array containing only string values"
            ),
        };
        match spec {
            Value::String(_) => add(spec)?,
            Value::Array(items) if items.is_empty() => bail!(
                Code::Location(31119),
                "$unset specification must be a string or an array with at least one field"
            ),
            Value::Array(items) => items.iter().try_for_each(add)?,
            _ => bail!(Code::Location(31002), "$unset specification must be a string or an array"),
        }
        Ok(AggProjection { root })
    }

    /// Writes the projection of `cx.root`.
    pub fn apply<'a>(&'a self, cx: &Eval<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        self.root.apply(cx.root, cx, out)
    }

    pub fn root(&self) -> &Node {
        &self.root
    }

    pub fn deps(&self, deps: &mut Deps) {
        self.root.deps("", deps);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Include,
    Exclude,
    Compute,
}

fn kind(value: Value<'_>) -> Kind {
    match value {
        Value::Bool(_) => {}
        _ if value.is_number() => {}
        _ => return Kind::Compute,
    }
    if value.is_truthy() { Kind::Include } else { Kind::Exclude }
}

fn is_id(path: &str) -> bool {
    path == "_id" || path.starts_with("_id.")
}

/// The mode is decided by the first field that is not an exclusion of `_id`.
fn mode(leaves: &[Leaf<'_>], spec: Value<'_>) -> Result<Mode> {
    let mut mode = None;
    for leaf in leaves {
        let kind = kind(leaf.value);
        match (mode, kind) {
            (_, Kind::Exclude) if leaf.path == "_id" => {}
            (Some(Mode::Include), Kind::Exclude) => bail!(
                Code::Location(40178),
                "Bad projection specification, cannot exclude fields other than '_id' in an \
                 inclusion projection: {spec}"
            ),
            (Some(Mode::Exclude), Kind::Include | Kind::Compute) => bail!(
                Code::Location(40179),
                "Bad projection specification, cannot include fields or add computed fields \
                 during an exclusion projection: {spec}"
            ),
            (_, Kind::Exclude) => mode = Some(Mode::Exclude),
            _ => mode = Some(Mode::Include),
        }
    }
    Ok(mode.unwrap_or(Mode::Exclude))
}
