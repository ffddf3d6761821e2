//! `$facet`: several pipelines over the same input; one document with an array for each.

use std::sync::Arc;

use nagi_bson::ValueBuf;

use super::{Pipeline, Within, prelude::*};
use crate::{
    limits::{DOC_BYTES_MAX, SORT_MEMORY_BYTES_MAX},
    source::Documents,
};

pub(super) static FACET: StageSpec = StageSpec { name: "$facet", place: Place::NotInFacet, parse };

struct Facet {
    pipelines: Arc<[(Box<str>, Pipeline)]>,
    text: ValueBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Some(doc) = spec.as_doc().filter(|doc| !doc.is_empty()) else {
        bail!(
            Code::Location(40169),
            "the $facet specification must be a non-empty object, but found: $facet: {spec}"
        );
    };
    let mut pipelines = Vec::new();
    for element in doc {
        let name = element.name();
        nagi_lang::expr::check_field_name(name)?;
        let Value::Array(stages) = element.value() else {
            bail!(
                Code::Location(40170),
                "arguments to $facet must be arrays, {name} is type {}",
                element.kind().name()
            );
        };
        for (at, stage) in stages.iter().enumerate() {
            if stage.as_doc().is_none_or(|stage| stage.is_empty()) {
                bail!(
                    Code::Location(40171),
                    "elements of arrays in $facet spec must be non-empty objects, {name} argument \
                     contained an element of type {}: {at}: {stage}",
                    stage.kind().name()
                );
            }
        }
        if stages.is_empty() {
            bail!(Code::BAD_VALUE, "sub-pipeline in $facet stage cannot be empty");
        }
        let mut inner =
            PipelineCx { depth: cx.depth + 1, within: Within::Facet, ..PipelineCx { ..*cx } };
        pipelines.push((name.into(), Pipeline::parse(stages, &mut inner)?));
    }
    Ok(Box::new(Facet { pipelines: pipelines.into(), text: ValueBuf::new(spec) }))
}

impl Stage for Facet {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        let stages = self.pipelines.iter().flat_map(|(_, pipeline)| &pipeline.stages);
        stages.for_each(|stage| stage.touches(out));
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { input, pipelines: self.pipelines.clone(), out: Vec::new(), done: false })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$facet", self.text.value());
    }
}

struct Running {
    input: Box<dyn Source>,
    pipelines: Arc<[(Box<str>, Pipeline)]>,
    out: Vec<u8>,
    done: bool,
}

impl Running {
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<Arc<Vec<DocBuf>>> {
        let mut docs = Vec::new();
        let mut bytes = 0;
        while self.input.advance(cx)? {
            let doc = self.input.doc().to_buf();
            bytes += doc.as_bytes().len();
            if bytes > SORT_MEMORY_BYTES_MAX {
                bail!(
                    Code::EXCEEDED_MEMORY_LIMIT,
                    "Exceeded memory limit for $facet: its input is larger than \
                     {SORT_MEMORY_BYTES_MAX} bytes"
                );
            }
            docs.push(doc);
        }
        Ok(Arc::new(docs))
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let docs = self.read(cx)?;
        self.out.clear();
        let mut out = DocWriter::new(&mut self.out);
        for (name, pipeline) in &*self.pipelines {
            let mut source = pipeline.open(0, Box::new(Documents::new(docs.clone())));
            let full = out.len();
            out.array(name, |array| {
                while source.advance(cx)? {
                    array.push_doc(source.doc());
                    if full + array.len() > 2 * DOC_BYTES_MAX {
                        bail!(
                            Code::BSON_OBJECT_TOO_LARGE,
                            "document constructed by $facet is larger than {DOC_BYTES_MAX} bytes"
                        );
                    }
                }
                Ok(())
            })?;
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
