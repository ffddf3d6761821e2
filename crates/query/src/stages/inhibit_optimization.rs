//! `$_internalInhibitOptimization`: passes on every document unchanged. No stage moves across it, and the stages
//! after it do not become part of the plan. Tools insert it into a pipeline in order to observe a stage on its own.

use super::prelude::*;

pub(super) static INHIBIT_OPTIMIZATION: StageSpec = StageSpec {
    name: NAME,
    parse,
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

const NAME: &str = "$_internalInhibitOptimization";

struct InhibitOptimization;

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    if spec.as_doc().is_none() {
        bail!(Code::TYPE_MISMATCH, "{NAME} must take a nested object but found: {NAME}: {spec}");
    }
    Ok(Box::new(InhibitOptimization))
}

impl Stage for InhibitOptimization {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        input
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put(NAME, Doc::EMPTY);
    }
}
