//! `$replaceRoot` and `$replaceWith`: replaces each document by one computed from it.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::{collation::Collation, expr::Eval, project};

use super::{
    map::{Mapped, Mapper},
    prelude::*,
    shown,
};

pub(super) static REPLACE_ROOT: StageSpec = StageSpec {
    name: "$replaceRoot",
    parse: parse_root,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};
pub(super) static REPLACE_WITH: StageSpec = StageSpec {
    name: "$replaceWith",
    parse: parse_with,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};

struct ReplaceRoot {
    root: Arc<Root>,
    name: &'static str,
    text: ValueBuf,
    collation: Option<&'static Collation>,
}

struct Root(project::ReplaceRoot);

fn parse_root(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let root = project::ReplaceRoot::parse(spec, &mut cx.lang())?;
    Ok(stage(root, "$replaceRoot", spec, cx))
}

fn parse_with(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let root = project::ReplaceRoot::parse_with(spec, &mut cx.lang())?;
    Ok(stage(root, "$replaceWith", spec, cx))
}

fn stage(
    root: project::ReplaceRoot,
    name: &'static str,
    spec: Value<'_>,
    cx: &PipelineCx<'_>,
) -> Box<dyn Stage> {
    Box::new(ReplaceRoot {
        root: Arc::new(Root(root)),
        name,
        text: ValueBuf::new(spec),
        collation: cx.collation,
    })
}

impl Mapper for Root {
    fn map<'a>(&'a self, cx: &Eval<'a>, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.0.apply(cx)?.as_bytes());
        Ok(())
    }
}

impl Stage for ReplaceRoot {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Mapped::boxed(input, self.root.clone())
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        match self.name {
            "$replaceRoot" => shown::fields(self.name, self.text.value(), self.collation, out),
            name => shown::expression(name, self.text.value(), self.collation, out),
        }
    }
}
