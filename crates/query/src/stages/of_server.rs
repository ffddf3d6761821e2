//! Stages that the server answers itself: what they have in common.
//!
//! As the first stage of a request such a stage never gets here, because the server has replaced it by its documents.
//! The parser only decides which error it has elsewhere. As in MongoDB, it is refused by its namespace in a pipeline on
//! another one (73), and by its place in a pipeline on its own (40600, 40602).

use nagi_bson::ValueBuf;
use nagi_store::Namespace;

use super::{COLLECTIONLESS, prelude::*};

/// The row of such a stage.
pub(super) struct OfServer {
    pub(super) name: &'static str,
    pub(super) runs_on: Where,
    /// The text of the error elsewhere.
    pub(super) refusal: &'static str,
}

/// The namespaces of a stage.
pub(super) enum Where {
    /// `{aggregate: 1}` on any database.
    Databases,
    /// `{aggregate: 1}` on `admin`.
    Admin,
    /// `config.system.sessions`.
    Sessions,
}

impl OfServer {
    /// # Errors
    /// 73 in a pipeline on another namespace.
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
        let is_collectionless = namespace.collection() == COLLECTIONLESS;
        match self.runs_on {
            Where::Databases => is_collectionless,
            Where::Admin => is_collectionless && namespace.database() == "admin",
            Where::Sessions => namespace.as_str() == "config.system.sessions",
        }
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
