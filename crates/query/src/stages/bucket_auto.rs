//! `$bucketAuto`: sorts by an expression and cuts into buckets of about equal size.

use std::sync::Arc;

use nagi_bson::{ValueBuf, compare};
use nagi_lang::{
    accum::{AccumSpec, Accumulator},
    collation,
    expr::{Deps, Expr},
};

use super::{
    bucket::is_expression,
    bucket_rows::{Gathered, Limits, Row, Rows},
    granularity::Granularity,
    prelude::*,
};
use crate::source::SourceStats;

pub(super) static BUCKET_AUTO: StageSpec =
    StageSpec { name: "$bucketAuto", parse, ..StageSpec::ROW };

struct BucketAuto {
    plan: Arc<Plan>,
    text: ValueBuf,
}

struct Plan {
    group_by: Expr,
    buckets: usize,
    limits: Limits,
    output: Vec<(Box<str>, AccumSpec)>,
    granularity: Option<Granularity>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(
            Code::Location(40240),
            "The argument to $bucketAuto must be an object, but found type: {}",
            spec.kind().name()
        );
    };
    let (mut group_by, mut buckets, mut output, mut granularity) = (None, None, None, None);
    for element in doc {
        let value = element.value();
        match element.name() {
            "groupBy" if is_expression(value) => {
                group_by = Some(Expr::parse(value, &mut cx.lang())?);
            }
            "groupBy" => bail!(
                Code::Location(40239),
                "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an \
                 expression object, but found: {value}"
            ),
            "buckets" => buckets = Some(bucket_count(value)?),
            "output" => output = Some(self::output(value, cx)?),
            "granularity" => match value {
                Value::String(name) => granularity = Some(Granularity::parse(name)?),
                other => bail!(
                    Code::Location(40261),
                    "The $bucketAuto 'granularity' field must be a string, but found type: {}",
                    other.kind().name()
                ),
            },
            name => bail!(Code::Location(40245), "Unrecognized option to $bucketAuto: {name}"),
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        bail!(
            Code::Location(40246),
            "$bucketAuto requires 'groupBy' and 'buckets' to be specified"
        );
    };
    let output = match output {
        Some(output) if !output.is_empty() => output,
        _ => {
            vec![("count".into(), AccumSpec::parse("$sum", Value::Int32(1), &mut cx.lang())?)]
        }
    };
    let plan = Arc::new(Plan {
        group_by,
        buckets,
        limits: Limits {
            collation: cx.collation,
            memory_bytes_max: cx.options.memory.bucket_auto,
            allow_disk_use: cx.options.allow_disk_use,
        },
        output,
        granularity,
    });
    Ok(Box::new(BucketAuto { plan, text: ValueBuf::new(spec) }))
}

fn bucket_count(value: Value<'_>) -> Result<usize> {
    if !value.is_number() {
        bail!(
            Code::Location(40241),
            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}",
            value.kind().name()
        );
    }
    let count = nagi_bson::number::as_i64_exact(value).and_then(|n| i32::try_from(n).ok());
    match count {
        Some(count) if count > 0 => Ok(count as usize),
        Some(count) => bail!(
            Code::Location(40243),
            "The $bucketAuto 'buckets' field must be greater than 0, but found: {count}"
        ),
        None => bail!(
            Code::Location(40242),
            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found \
             {value}"
        ),
    }
}

fn output(value: Value<'_>, cx: &PipelineCx<'_>) -> Result<Vec<(Box<str>, AccumSpec)>> {
    let Value::Doc(fields) = value else {
        bail!(
            Code::Location(40244),
            "The $bucketAuto 'output' field must be an object, but found type: {}",
            value.kind().name()
        );
    };
    let mut output = Vec::new();
    for field in fields {
        let accum = AccumSpec::parse_field(field.name(), field.value(), &mut cx.lang())?;
        output.push((field.name().into(), accum));
    }
    Ok(output)
}

impl Stage for BucketAuto {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            input,
            plan: self.plan.clone(),
            filled: false,
            done: Vec::new(),
            next: 0,
            stats: SourceStats::default(),
            arena: Bump::new(),
        })
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$bucketAuto", self.text.value());
    }

    fn needs(&self, deps: &mut Deps) -> bool {
        self.plan.group_by.deps(deps);
        self.plan.output.iter().for_each(|(_, accum)| accum.deps(deps));
        !deps.whole
    }
}

struct OneBucket {
    min: ValueBuf,
    max: ValueBuf,
    states: Vec<Box<dyn Accumulator>>,
}

struct Running {
    input: Box<dyn Source>,
    plan: Arc<Plan>,
    filled: bool,
    done: Vec<DocBuf>,
    /// Number of documents of `done` that were returned.
    next: usize,
    stats: SourceStats,
    arena: Bump,
}

impl Running {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let mut gathered = Gathered::default();
        while self.input.advance(cx)? {
            renew(&mut self.arena);
            let eval = cx.eval_current(&*self.input, &self.arena);
            let key = match self.plan.group_by.eval(&eval)? {
                Value::Missing => ValueBuf::new(Value::Null),
                key => ValueBuf::new(key),
            };
            let mut arguments = Vec::with_capacity(self.plan.output.len());
            for (_, accum) in &self.plan.output {
                arguments.push(ValueBuf::new(accum.argument().eval(&eval)?));
            }
            gathered.add(Row { key, arguments: arguments.into() }, self.plan.limits, cx)?;
        }
        let (mut rows, spilled) = gathered.sorted(self.plan.limits, cx)?;
        self.stats = spilled;
        let buckets = distribute(&self.plan, &mut rows, cx)?;
        let finished = buckets.into_iter().map(|bucket| finish(&self.plan, bucket, cx));
        self.done = finished.collect::<Result<_>>()?;
        self.filled = true;
        Ok(())
    }
}

/// Divides the sorted rows into buckets. Equal values stay together; the last bucket takes the rest.
fn distribute(plan: &Plan, rows: &mut Rows, cx: &Cx<'_>) -> Result<Vec<OneBucket>> {
    let size = (rows.total as f64 / plan.buckets as f64).round().max(1.0) as usize;
    let own = plan.limits.collation;
    let mut buckets: Vec<OneBucket> = Vec::new();
    while let Some(first) = rows.peek() {
        let mut min = first.key.clone();
        let share = if buckets.len() + 1 == plan.buckets { usize::MAX } else { size };
        let mut states = started(plan, cx)?;
        let mut max = min.clone();
        let mut taken = 0;
        while taken < share
            && let Some(row) = rows.take()?
        {
            add(&mut states, &row, cx)?;
            max = row.key;
            taken += 1;
        }
        if let Some(granularity) = &plan.granularity {
            max = ValueBuf::new(granularity.round_up(max.value())?);
        }
        let belongs = |row: &Row| match plan.granularity {
            Some(_) => compare::values(row.key.value(), max.value()).is_lt(),
            None => collation::equal(row.key.value(), max.value(), own),
        };
        while rows.peek().is_some_and(belongs)
            && let Some(row) = rows.take()?
        {
            add(&mut states, &row, cx)?;
        }
        match (buckets.last_mut(), &plan.granularity) {
            (Some(before), None) => before.max = min.clone(),
            (Some(before), Some(_)) => min = before.max.clone(),
            (None, Some(granularity)) => {
                min = ValueBuf::new(granularity.round_down(min.value())?);
            }
            (None, None) => {}
        }
        buckets.push(OneBucket { min, max, states });
    }
    Ok(buckets)
}

fn started(plan: &Plan, cx: &Cx<'_>) -> Result<Vec<Box<dyn Accumulator>>> {
    let mut states: Vec<_> = plan.output.iter().map(|(_, accum)| accum.new_state()).collect();
    for state in &mut states {
        state.start(Value::Null, cx.vars, cx.env.now_ms())?;
    }
    Ok(states)
}

fn add(states: &mut [Box<dyn Accumulator>], row: &Row, cx: &Cx<'_>) -> Result<()> {
    cx.pass()?;
    for (at, state) in states.iter_mut().enumerate() {
        // A missing argument at the end of a spilled row.
        let argument = row.arguments.get(at).map_or(Value::Missing, ValueBuf::value);
        state.add_in(argument, cx.vars)?;
    }
    Ok(())
}

fn finish(plan: &Plan, mut bucket: OneBucket, cx: &Cx<'_>) -> Result<DocBuf> {
    for state in &mut bucket.states {
        state.settle(cx.vars)?;
    }
    let bounds = bucket.min.heap_bytes() + bucket.max.heap_bytes();
    cx.writing_document(bounds + bucket.states.iter().map(|state| state.bytes()).sum::<usize>())?;
    Ok(DocBuf::build(|out| {
        out.doc("_id", |id| {
            id.put("min", bucket.min.value());
            id.put("max", bucket.max.value());
        });
        for ((name, _), state) in plan.output.iter().zip(&mut bucket.states) {
            state.finish(out.slot(name));
        }
    }))
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.filled {
            self.fill(cx)?;
        }
        cx.pass()?;
        let more = self.next < self.done.len();
        self.next += usize::from(more);
        Ok(more)
    }

    fn doc(&self) -> Doc<'_> {
        self.done[self.next - 1].as_doc()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        self.stats.show_spills(out);
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.filled { Ok(()) } else { self.input.restore(cx) }
    }
}
