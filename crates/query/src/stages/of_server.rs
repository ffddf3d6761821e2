//! Stages that the server answers itself: what they have in common.
//!
//! As the first stage of a request such a stage never gets here, because the server has replaced it by its documents.
//! The parser only decides which error it has elsewhere. As in MongoDB, one that is for no collection is refused by its
//! namespace in the pipeline of a collection (73), and by its place in one that has none (40600, 40602).

use nagi_bson::ValueBuf;
use nagi_store::Namespace;

use super::{COLLECTIONLESS, prelude::*};

/// A stage for `{aggregate: 1}`.
pub(super) struct OfServer {
    pub(super) name: &'static str,
    /// Only on the database `admin`.
    pub(super) on_admin: bool,
    /// The text of the error elsewhere.
    pub(super) refusal: &'static str,
}

impl OfServer {
    /// # Errors
    /// 73 in the pipeline of a collection, or of another database.
    pub(super) fn parse(
        &'static self,
        spec: Value<'_>,
        cx: &mut PipelineCx<'_>,
    ) -> Result<Box<dyn Stage>> {
        if !self.is_for(cx.namespace) {
            bail!(Code::INVALID_NAMESPACE, "{}", self.refusal);
        }
        Ok(Box::new(Unanswered { of: self, spec: ValueBuf::new(spec) }))
    }

    fn is_for(&self, namespace: &Namespace) -> bool {
        namespace.collection() == COLLECTIONLESS
            && (!self.on_admin || namespace.database() == "admin")
    }
}

/// The stage in a pipeline that the server has not changed: explain shows it.
struct Unanswered {
    of: &'static OfServer,
    spec: ValueBuf,
}

impl Stage for Unanswered {
    fn begins_with(&self) -> Option<super::Use> {
        None
    }

    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Refused { refusal: self.of.refusal })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put(self.of.name, self.spec.value());
    }

    fn step(&self) -> Step<'_> {
        Step::Begins
    }
}

/// It has no documents: to execute an explained stage is refused.
struct Refused {
    refusal: &'static str,
}

impl Source for Refused {
    fn advance(&mut self, _: &mut Cx<'_>) -> Result<bool> {
        bail!(Code::INVALID_NAMESPACE, "{}", self.refusal)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
