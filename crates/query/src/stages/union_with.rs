//! `$unionWith`: appends the documents of another collection, after a pipeline over them.

use std::sync::Arc;

use nagi_bson::{Array, ValueBuf};
use nagi_store::Namespace;

use super::{Within, inner::Inner, prelude::*};

pub(super) static UNION_WITH: StageSpec = StageSpec {
    name: "$unionWith",
    shape: How::Fields(&[("coll", How::Same), ("pipeline", How::Pipeline)]),
    parse,
    ..StageSpec::ROW
};

struct UnionWith {
    inner: Arc<Inner>,
    text: ValueBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let mut collection = None;
    let mut stages = Array::EMPTY;
    match spec {
        Value::String(name) => collection = Some(name),
        Value::Doc(doc) => {
            for element in doc {
                match (element.name(), element.value()) {
                    ("coll", Value::String(name)) => collection = Some(name),
                    ("pipeline", Value::Array(array)) => stages = array,
                    (name @ ("coll" | "pipeline"), value) => bail!(
                        Code::TYPE_MISMATCH,
                        "BSON field '$unionWith.{name}' is the wrong type '{}', expected type '{}'",
                        value.kind().name(),
                        if name == "coll" { "string" } else { "array" }
                    ),
                    (name, _) => bail!(
                        Code::IDL_UNKNOWN_FIELD,
                        "BSON field '$unionWith.{name}' is an unknown field."
                    ),
                }
            }
        }
        _ => bail!(
            Code::FAILED_TO_PARSE,
            "the $unionWith stage specification must be an object or string, but found {}",
            spec.kind().name()
        ),
    }
    let Some(collection) = collection else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$unionWith stage without explicit collection must have a pipeline with $documents as \
             first stage"
        );
    };
    let namespace = Namespace::new(cx.namespace.database(), collection)?;
    let inner = Inner::parse(namespace, stages, &[], Within::UnionWith, cx)?;
    Ok(Box::new(UnionWith { inner: Arc::new(inner), text: ValueBuf::new(spec) }))
}

impl Stage for UnionWith {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        self.inner.touches(out);
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { inputs: vec![input], at: 0, inner: self.inner.clone() })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$unionWith", self.text.value());
    }
}

struct Running {
    /// The stage's input and, once it is exhausted, the other collection.
    inputs: Vec<Box<dyn Source>>,
    at: usize,
    inner: Arc<Inner>,
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.inputs[self.at].advance(cx)? {
            return Ok(true);
        }
        if self.at > 0 {
            return Ok(false);
        }
        self.inputs.push(self.inner.open(None, cx)?);
        self.at = 1;
        self.inputs[1].advance(cx)
    }

    fn doc(&self) -> Doc<'_> {
        self.inputs[self.at].doc()
    }

    fn meta(&self) -> Doc<'_> {
        self.inputs[self.at].meta()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }
}
