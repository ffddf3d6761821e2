//! The projection of a `find` with what a plan needs to know of it.

use nagi_bson::{Doc, DocBuf, DocWriter};
use nagi_error::Result;
use nagi_lang::{
    expr::{Eval, ParseCx},
    filter::{Filter, MatchInfo},
    project,
};

/// A parsed projection that does something.
pub(crate) struct Projection {
    shape: project::Projection,
    text: DocBuf,
    simple: bool,
}

impl Projection {
    /// Parses the `projection` argument; what leaves every document as it is is none.
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

    /// As it was given, for explain.
    pub(crate) fn text(&self) -> Doc<'_> {
        self.text.as_doc()
    }

    /// Whether `apply` needs to know how the document matched.
    pub(crate) fn needs_match(&self) -> bool {
        self.shape.needs_position()
    }

    /// Whether `apply` needs to know what the scan left with the document.
    pub(crate) fn needs_meta(&self) -> bool {
        self.shape.needs_meta()
    }

    /// Whether it shows the values sorted by.
    pub(crate) fn needs_sort_key(&self) -> bool {
        self.shape.needs_sort_key()
    }

    /// Whether it only keeps or drops whole top-level fields.
    pub(crate) fn is_simple(&self) -> bool {
        self.simple
    }

    /// The paths it includes, if it does nothing but include: what an index must hold to cover it.
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
