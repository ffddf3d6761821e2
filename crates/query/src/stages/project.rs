//! `$project`: includes, excludes and computes fields. Also the implementation of `$unset`.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::{
    collation::Collation,
    expr::Eval,
    project::{AggProjection, Mode},
};

use super::{
    map::{Mapped, Mapper},
    paths::copied,
    prelude::*,
    shown,
};

pub(super) static PROJECT: StageSpec = StageSpec {
    name: "$project",
    shape: How::Projection,
    parse,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};

/// A parsed `$project` or `$unset`.
pub(super) struct Project {
    pub(super) shape: Arc<Shape>,
    pub(super) name: &'static str,
    pub(super) text: ValueBuf,
    pub(super) collation: Option<&'static Collation>,
}

pub(super) struct Shape(pub(super) AggProjection);

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let shape = AggProjection::parse(spec, &mut cx.lang())?;
    Ok(Box::new(Project {
        shape: Arc::new(Shape(shape)),
        name: "$project",
        text: ValueBuf::new(spec),
        collation: cx.collation,
    }))
}

impl Mapper for Shape {
    fn map<'a>(&'a self, cx: &Eval<'a>, out: &mut Vec<u8>) -> Result<()> {
        self.0.apply(cx, &mut DocWriter::new(out))
    }
}

impl Stage for Project {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Mapped::boxed(input, self.shape.clone())
    }

    fn changes(&self) -> Option<Vec<String>> {
        let root = self.shape.0.root();
        (root.mode() == Mode::Exclude)
            .then(|| root.fields().iter().map(|(name, _)| name.to_string()).collect())
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn source_of(&self, path: &str) -> Option<String> {
        copied(self.shape.0.root(), path)
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        match self.name {
            "$project" => shown::projection(self.name, self.text.value(), self.collation, out),
            name => out.put(name, self.text.value()),
        }
    }

    fn needs(&self, deps: &mut nagi_lang::expr::Deps) -> bool {
        self.shape.0.deps(deps);
        deps.ordered = true;
        !deps.whole
    }
}
