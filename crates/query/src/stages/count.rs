//! `$count`: one document with the number of input documents; none without input.

use nagi_lang::expr::Deps;

use super::prelude::*;
use crate::source::{Gather, drain, gathers_portions};

pub(super) static COUNT: StageSpec =
    StageSpec { name: "$count", shape: How::Same, parse, ..StageSpec::ROW };

struct Count {
    field: Box<str>,
}

struct Running {
    /// The input, and the source of its later part if it was split.
    inputs: Vec<Box<dyn Source>>,
    field: Box<str>,
    counter: Counter,
    out: DocBuf,
    done: bool,
}

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Some(field) = spec.as_str() else {
        bail!(Code::Location(40156), "the count field must be a non-empty string");
    };
    if field.is_empty() {
        bail!(Code::Location(40157), "the count field must be a non-empty string");
    }
    if field.starts_with('$') {
        bail!(Code::Location(40158), "the count field cannot be a $-prefixed path");
    }
    if field.contains('\0') {
        bail!(Code::Location(40159), "the count field cannot contain a null byte");
    }
    if field.contains('.') {
        bail!(Code::Location(40160), "the count field cannot contain '.'");
    }
    if field == "_id" {
        bail!(Code::Location(15948), "a group's _id may only be specified once");
    }
    Ok(Box::new(Count { field: field.into() }))
}

impl Stage for Count {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            inputs: vec![input],
            field: self.field.clone(),
            counter: Counter(0),
            out: DocBuf::new(),
            done: false,
        })
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn needs(&self, _: &mut Deps) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$count", &*self.field);
    }
}

/// Counts the documents of a source.
pub(crate) struct Counter(pub(crate) i64);

impl Gather for Counter {
    fn take(&mut self, _: &dyn Source, _: &mut Cx<'_>) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Counter>> {
        Ok(Some(Counter(0)))
    }

    fn join(&mut self, later: Counter, _: &mut Cx<'_>) -> Result<()> {
        self.0 += later.0;
        Ok(())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let helper = drain(&mut *self.inputs[0], &mut self.counter, cx)?;
        self.inputs.extend(helper);
        let count = self.counter.0;
        let value = match i32::try_from(count) {
            Ok(small) => Value::Int32(small),
            Err(_) => Value::Int64(count),
        };
        self.out = DocBuf::build(|out| out.put(&self.field, value));
        Ok(count > 0)
    }

    gathers_portions!(counter);

    fn doc(&self) -> Doc<'_> {
        self.out.as_doc()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }
}
