//! `$count`: one document with the number of input documents; none without input.

use std::sync::Arc;

use nagi_lang::expr::Deps;
use nagi_timeseries::bucket::Columns;

use super::{
    prelude::*,
    unpack_columns::{BUCKET_WEIGHT, ByColumns, Times},
};
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
        Box::new(Running::new(input, self.field.clone(), Counter::default()))
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn needs(&self, _: &mut Deps) -> bool {
        true
    }

    fn over_columns(&self, by: ByColumns, replaced: &[Arc<dyn Stage>]) -> Option<Arc<dyn Stage>> {
        let (field, by) = (self.field.clone(), Arc::new(by));
        Some(Arc::new(CountBuckets { field, by, replaced: replaced.into() }))
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$count", &*self.field);
    }
}

/// A `$count` whose input are buckets.
struct CountBuckets {
    field: Box<str>,
    by: Arc<ByColumns>,
    /// The stages that it makes unnecessary, for explain.
    replaced: Box<[Arc<dyn Stage>]>,
}

impl Stage for CountBuckets {
    fn replaces(&self) -> &[Arc<dyn Stage>] {
        &self.replaced
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        let counter = Counter { count: 0, by: Some(self.by.clone()) };
        Box::new(Running::new(input, self.field.clone(), counter))
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        self.replaced.iter().for_each(|stage| stage.explain(out));
        out.put("$count", &*self.field);
    }
}

impl Running {
    fn new(input: Box<dyn Source>, field: Box<str>, counter: Counter) -> Running {
        Running { inputs: vec![input], field, counter, out: DocBuf::new(), done: false }
    }
}

/// Counts the documents of a source, or the measurements of its buckets.
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) count: i64,
    by: Option<Arc<ByColumns>>,
}

impl Counter {
    fn unpack(
        &mut self,
        bucket: Doc<'_>,
        by: &ByColumns,
        passed: usize,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        by.unpack(bucket, passed, cx, &mut |_, _| {
            self.count += 1;
            Ok(())
        })
    }

    fn take_bucket(&mut self, bucket: Doc<'_>, by: &ByColumns, cx: &mut Cx<'_>) -> Result<()> {
        let columns = Columns::of(bucket).filter(|columns| by.is_readable(columns));
        let Some(mut columns) = columns else {
            return self.unpack(bucket, by, 0, cx);
        };
        if let Some(count) = by.whole(&columns) {
            self.count += count as i64;
            return Ok(());
        }
        let mut times = Times::new(by, &columns);
        while times.advance(&mut columns, cx)? {
            self.count += times.wanted.iter().filter(|wanted| **wanted).count() as i64;
        }
        match times.odd {
            true => self.unpack(bucket, by, times.before, cx),
            false => Ok(()),
        }
    }
}

impl Gather for Counter {
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(by) = self.by.clone() {
            return self.take_bucket(input.doc(), &by, cx);
        }
        self.count += 1;
        Ok(())
    }

    fn weight(&self) -> u64 {
        if self.by.is_some() { BUCKET_WEIGHT } else { 1 }
    }

    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Counter>> {
        Ok(Some(Counter { count: 0, by: self.by.clone() }))
    }

    fn join(&mut self, later: Counter, _: &mut Cx<'_>) -> Result<()> {
        self.count += later.count;
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
        let count = self.counter.count;
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
