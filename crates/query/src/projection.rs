//! The projection of a `find`, with the properties that a plan needs.

use nagi_bson::{Doc, DocBuf, DocWriter};
use nagi_error::Result;
use nagi_lang::{
    expr::{Eval, ParseCx},
    filter::{Filter, MatchInfo},
    project,
};

/// A parsed projection that changes documents.
pub(crate) struct Projection {
    shape: project::Projection,
    text: DocBuf,
    simple: bool,
}

impl Projection {
    /// Parses the `projection` argument; none if it leaves every document unchanged.
    pub(crate) fn parse(
        spec: Doc<'_>,
        filter: &Filter,
        cx: &mut ParseCx<'_>,
    ) -> Result<Option<Projection>> {
        if spec.is_empty() {
            return Ok(None);
        }
        let shape = project::Projection::parse_find(spec, Some(filter), cx)?;
        if shape.is_identity() {
            return Ok(None);
        }
        let simple = spec.iter().all(|field| {
            let value = field.value();
            (value.is_number() || matches!(value, nagi_bson::Value::Bool(_)))
                && !field.name().contains('.')
        });
        Ok(Some(Projection { shape, text: spec.to_buf(), simple }))
    }

    /// The projection as given, for explain.
    pub(crate) fn text(&self) -> Doc<'_> {
        self.text.as_doc()
    }

    /// Returns true if `apply` needs to know how the document matched.
    pub(crate) fn needs_match(&self) -> bool {
        self.shape.needs_position()
    }

    /// Returns true if `apply` needs the metadata of the document.
    pub(crate) fn needs_meta(&self) -> bool {
        self.shape.needs_meta()
    }

    /// Returns true if it shows the sort key.
    pub(crate) fn needs_sort_key(&self) -> bool {
        self.shape.needs_sort_key()
    }

    /// Returns true if it only keeps or drops whole top-level fields.
    pub(crate) fn is_simple(&self) -> bool {
        self.simple
    }

    /// The included paths, if it does nothing but include: the paths that an index needs to cover it.
    pub(crate) fn included(&self) -> Option<Vec<String>> {
        self.shape.included_paths()
    }

    pub(crate) fn apply<'a>(
        &'a self,
        cx: &Eval<'a>,
        info: Option<MatchInfo>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        self.shape.apply(cx.root, info.unwrap_or_default(), cx, out)
    }
}
