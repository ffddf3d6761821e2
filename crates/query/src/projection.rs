//! The projection of a `find`: an aggregation projection, and what only `find` knows (`a.$`,
//! `$slice`, `$elemMatch`).

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::Result;
use nagi_lang::{
    expr::{Deps, Eval, ParseCx},
    filter::MatchInfo,
    project::{Action, AggProjection, Mode, Node},
};

/// A parsed projection.
pub(crate) struct Projection {
    shape: AggProjection,
    text: DocBuf,
}

impl Projection {
    /// Parses the `projection` argument; `{}` is none.
    pub(crate) fn parse(spec: Doc<'_>, cx: &mut ParseCx<'_>) -> Result<Option<Projection>> {
        if spec.is_empty() {
            return Ok(None);
        }
        Ok(Some(Projection {
            shape: AggProjection::parse(Value::Doc(spec), cx)?,
            text: spec.to_buf(),
        }))
    }

    /// As it was given, for explain.
    pub(crate) fn text(&self) -> Doc<'_> {
        self.text.as_doc()
    }

    /// Whether `apply` needs to know how the document matched.
    pub(crate) fn needs_match(&self) -> bool {
        false
    }

    /// Whether it only keeps or drops whole top-level fields.
    pub(crate) fn is_simple(&self) -> bool {
        let fields = self.shape.root().fields();
        fields.iter().all(|(_, action)| matches!(action, Action::Include | Action::Exclude))
    }

    /// The paths it includes, if it does nothing but include: what an index must hold to cover it.
    pub(crate) fn included(&self) -> Option<Vec<String>> {
        let root = self.shape.root();
        if root.mode() != Mode::Include || computes(root) {
            return None;
        }
        let mut deps = Deps::default();
        self.shape.deps(&mut deps);
        (!deps.whole).then_some(deps.paths)
    }

    pub(crate) fn apply<'a>(
        &'a self,
        cx: &Eval<'a>,
        _: Option<MatchInfo>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        self.shape.apply(cx, out)
    }
}

fn computes(node: &Node) -> bool {
    node.fields().iter().any(|(_, action)| match action {
        Action::Compute(_) => true,
        Action::Nested(inner) => computes(inner),
        _ => false,
    })
}
