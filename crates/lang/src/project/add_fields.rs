//! `$addFields` and `$set`: add computed fields to the existing ones.

use nagi_bson::{DocWriter, Value};
use nagi_error::{Code, Result, bail};

use super::parse::{compute, invalid, leaves};
use super::{Mode, Node};
use crate::expr::{Deps, Eval, ParseCx};

/// A parsed `$addFields` (or `$set`).
#[derive(Debug, Clone)]
pub struct AddFields {
    root: Node,
}

impl AddFields {
    /// Parses the specification. `stage` is the name of the stage in error messages.
    pub fn parse(spec: Value<'_>, stage: &str, cx: &mut ParseCx<'_>) -> Result<AddFields> {
        let Value::Doc(doc) = spec else {
            bail!(
                Code::Location(40272),
                "{stage} specification stage must be an object, got {}",
                spec.kind().name()
            );
        };
        let mut root = Node::new(Mode::Add);
        for leaf in leaves(doc).map_err(invalid(stage))? {
            compute(&mut root, &leaf, cx).map_err(invalid(stage))?;
        }
        Ok(AddFields { root })
    }

    /// A stage that adds nothing.
    pub fn empty() -> AddFields {
        AddFields { root: Node::new(Mode::Add) }
    }

    /// Writes `cx.root` with the computed fields.
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
