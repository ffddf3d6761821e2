//! `$redact`: keeps, prunes or descends into documents, as an expression decides.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::project::Redact;

use super::prelude::*;
use crate::source::Absorbed;

pub(super) static REDACT: StageSpec =
    StageSpec { name: "$redact", parse, facts: StageFacts::OF_CHANGE_STREAM, ..StageSpec::ROW };

struct RedactStage {
    redact: Arc<Redact>,
    text: ValueBuf,
}

struct Running {
    input: Box<dyn Source>,
    redact: Arc<Redact>,
    out: Vec<u8>,
    arena: Bump,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let redact = Redact::parse(spec, &mut cx.lang().for_redact())?;
    Ok(Box::new(RedactStage { redact: Arc::new(redact), text: ValueBuf::new(spec) }))
}

impl Stage for RedactStage {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        let redact = self.redact.clone();
        Box::new(Running { input, redact, out: Vec::new(), arena: Bump::new() })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$redact", self.text.value());
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            self.out.clear();
            renew(&mut self.arena);
            let eval = cx.eval_current(&*self.input, &self.arena);
            if self.redact.apply(&eval, &mut DocWriter::new(&mut self.out))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        self.input.meta()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
