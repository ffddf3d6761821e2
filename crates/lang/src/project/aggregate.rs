//! `$project` and `$unset`: include, exclude and compute fields.

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};

use super::find::{self, Level, Projection};
use super::parse::invalid;
use super::parser::{Parser, Place};
use super::{Action, Mode, Node};
use crate::expr::{Deps, Eval, ParseCx};

/// A parsed `$project`.
#[derive(Debug, Clone)]
pub struct AggProjection {
    root: Node,
}

impl AggProjection {
    /// Parses the specification of `$project`.
    ///
    /// # Errors
    /// 15969, 51272, and the errors of [`Projection::parse_find`], with the name of the stage; 31324 for a positional
    /// path.
    pub fn parse(spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<AggProjection> {
        let Value::Doc(doc) = spec else {
            bail!(Code::Location(15969), "$project specification must be an object");
        };
        read(doc, cx).map_err(invalid("$project"))
    }

    /// Parses the argument of `$unset`: a field name or an array of them.
    ///
    /// # Errors
    /// 31002, 31119, 31120 for the wrong form; the errors of invalid paths and of colliding paths.
    pub fn parse_unset(spec: Value<'_>) -> Result<AggProjection> {
        let mut cx = ParseCx::new();
        let mut parser = Parser::new(Place::Stage, None, &mut cx);
        let mut add = |value: Value<'_>| match value {
            Value::String(path) => {
                parser.field("", path, Value::Bool(false)).map_err(invalid("$unset"))
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
        Ok(AggProjection::of(parser.finish()))
    }

    fn of(projection: Projection) -> AggProjection {
        let mode = if projection.excludes { Mode::Exclude } else { Mode::Include };
        AggProjection { root: node(projection.root, mode) }
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

fn read(spec: Doc<'_>, cx: &mut ParseCx<'_>) -> Result<AggProjection> {
    if spec.is_empty() {
        bail!(Code::Location(51272), "projection specification must have at least one field");
    }
    let mut parser = Parser::new(Place::Stage, None, cx);
    parser.fields("", spec)?;
    Ok(AggProjection::of(parser.finish()))
}

/// Builds the tree of a stage. `_id` may be included where other fields are excluded, and vice versa. Such an entry
/// is dropped, because a field without an entry is treated in the same way.
fn node(level: Level, mode: Mode) -> Node {
    let mut node = Node::new(mode);
    for (name, action) in level.fields {
        let action = match action {
            find::Action::Include if mode == Mode::Include => Action::Include,
            find::Action::Exclude if mode == Mode::Exclude => Action::Exclude,
            find::Action::Compute(expr) => Action::Compute(*expr),
            find::Action::Nested(below) => Action::Nested(self::node(below, mode)),
            _ => continue,
        };
        node.add(&name, action);
    }
    node
}
