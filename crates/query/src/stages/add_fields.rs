//! `$addFields` and its alias `$set`: adds computed fields to the existing ones.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::{
    collation::Collation,
    expr::{Deps, Eval},
    project::{self, Action, Node},
};

use super::{
    map::{Mapped, Mapper},
    paths::copied,
    prelude::*,
};

pub(super) static ADD_FIELDS: StageSpec = StageSpec {
    name: "$addFields",
    parse: parse_add_fields,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};
pub(super) static SET: StageSpec = StageSpec {
    name: "$set",
    parse: parse_set,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};

struct AddFields {
    fields: Arc<Fields>,
    name: &'static str,
    text: ValueBuf,
    collation: Option<&'static Collation>,
}

struct Fields(project::AddFields);

fn parse_add_fields(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    parse("$addFields", spec, cx)
}

fn parse_set(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    parse("$set", spec, cx)
}

pub(super) fn parse(
    name: &'static str,
    spec: Value<'_>,
    cx: &PipelineCx<'_>,
) -> Result<Box<dyn Stage>> {
    let fields = project::AddFields::parse(spec, name, &mut cx.lang())?;
    Ok(Box::new(AddFields {
        fields: Arc::new(Fields(fields)),
        name,
        text: ValueBuf::new(spec),
        collation: cx.collation,
    }))
}

impl Mapper for Fields {
    fn map<'a>(&'a self, cx: &Eval<'a>, out: &mut Vec<u8>) -> Result<()> {
        self.0.apply(cx, &mut DocWriter::new(out))
    }
}

/// Adds the paths that the expressions below a field read.
fn nested_reads(node: &Node, deps: &mut Deps) -> bool {
    node.fields().iter().all(|(_, action)| match action {
        Action::Compute(expr) => {
            expr.deps(deps);
            true
        }
        Action::Nested(below) => nested_reads(below, deps),
        _ => false,
    })
}

impl Stage for AddFields {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Mapped::boxed(input, self.fields.clone())
    }

    fn changes(&self) -> Option<Vec<String>> {
        Some(self.fields.0.root().fields().iter().map(|(name, _)| name.to_string()).collect())
    }

    fn hands_on(&self, deps: &mut Deps) -> bool {
        let fields = self.fields.0.root().fields();
        for (name, action) in fields {
            match action {
                Action::Compute(_) => deps.forget(name),
                _ => _ = deps.paths.insert(name.to_string()),
            }
        }
        fields.iter().all(|(_, action)| match action {
            Action::Compute(expr) => {
                expr.deps(deps);
                true
            }
            Action::Nested(node) => nested_reads(node, deps),
            _ => false,
        })
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn source_of(&self, path: &str) -> Option<String> {
        copied(self.fields.0.root(), path)
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        super::shown::fields(self.name, self.text.value(), self.collation, out);
    }
}
