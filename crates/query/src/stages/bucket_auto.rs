//! `$bucketAuto`: sorts by an expression and cuts into buckets of about equal size.

use std::sync::Arc;

use nagi_bson::{ValueBuf, compare};
use nagi_lang::{
    accum::{AccumSpec, Accumulator},
    expr::{Deps, Expr},
};

use super::{
    bucket::is_expression,
    bucket_rows::{Gathered, Limits, Row, Rows},
    granularity::Granularity,
    prelude::*,
};
use crate::source::{Gather, SourceStats, drain, gathers_portions};

pub(super) static BUCKET_AUTO: StageSpec = StageSpec {
    name: "$bucketAuto",
    accumulates: super::Accumulates::Outputs,
    parse,
    ..StageSpec::ROW
};

struct BucketAuto {
    plan: Arc<Plan>,
    text: ValueBuf,
}

struct Plan {
    group_by: Expr,
    buckets: usize,
    limits: Limits,
    output: Vec<Output>,
    granularity: Option<Granularity>,
}

/// A field of the output.
struct Output {
    name: Box<str>,
    accum: AccumSpec,
    /// The name of its argument in rows.
    argument: Box<str>,
}

impl Output {
    /// The argument, if it is the same for all documents; then it is not stored in rows.
    fn constant(&self) -> Option<Value<'_>> {
        self.accum.argument().as_const()
    }
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
    let output = output.into_iter().enumerate().map(|(at, (name, accum))| Output {
        name,
        accum,
        argument: at.to_string().into(),
    });
    let plan = Arc::new(Plan {
        group_by,
        buckets,
        limits: Limits {
            collation: cx.collation,
            memory_bytes_max: cx.options.memory.bucket_auto,
            allow_disk_use: cx.options.allow_disk_use,
        },
        output: output.collect(),
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
            inputs: vec![input],
            plan: self.plan.clone(),
            gathering: Gathering::new(&self.plan),
            distributed: false,
            done: Vec::new(),
            next: 0,
            stats: SourceStats::default(),
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
        self.plan.output.iter().for_each(|field| field.accum.deps(deps));
        !deps.whole
    }
}

struct OneBucket {
    min: ValueBuf,
    max: ValueBuf,
    states: Vec<Box<dyn Accumulator>>,
}

struct Running {
    /// The input, and the source of its later part if it was split.
    inputs: Vec<Box<dyn Source>>,
    plan: Arc<Plan>,
    /// The rows of the input, until they are distributed.
    gathering: Gathering,
    distributed: bool,
    done: Vec<DocBuf>,
    /// Number of documents of `done` that were returned.
    next: usize,
    stats: SourceStats,
}

/// Makes rows of documents.
struct Gathering {
    plan: Arc<Plan>,
    rows: Gathered,
    arena: Bump,
}

impl Gathering {
    fn new(plan: &Arc<Plan>) -> Gathering {
        Gathering { plan: plan.clone(), rows: Gathered::new(plan.limits), arena: Bump::new() }
    }
}

impl Gather for Gathering {
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()> {
        let eval = cx.eval_current(input, &self.arena);
        let key = match self.plan.group_by.eval(&eval)? {
            Value::Missing => Value::Null,
            key => key,
        };
        let output = &self.plan.output;
        let arguments = |out: &mut DocWriter<'_>| {
            for field in output.iter().filter(|field| field.constant().is_none()) {
                out.put(&field.argument, field.accum.argument().eval(&eval)?);
            }
            Ok(())
        };
        self.rows.add(key, arguments, cx)?;
        renew(&mut self.arena);
        Ok(())
    }

    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Gathering>> {
        let rows = self.rows.beside();
        Ok(rows.map(|rows| Gathering { rows, ..Gathering::new(&self.plan) }))
    }

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.rows.order(cx)
    }

    fn join(&mut self, later: Gathering, cx: &mut Cx<'_>) -> Result<()> {
        self.rows.join(later.rows, cx)
    }

    fn alone(&mut self) {
        self.rows.alone();
    }
}

impl Running {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.distributed {
            return Ok(());
        }
        let helper = drain(&mut *self.inputs[0], &mut self.gathering, cx)?;
        self.inputs.extend(helper);
        let none = Gathered::new(self.plan.limits);
        let gathered = std::mem::replace(&mut self.gathering.rows, none);
        self.distributed = true;
        let (mut rows, spilled) = gathered.sorted(cx)?;
        self.stats = spilled;
        let buckets = distribute(&self.plan, &mut rows, cx)?;
        let finished = buckets.into_iter().map(|bucket| finish(&self.plan, bucket, cx));
        self.done = finished.collect::<Result<_>>()?;
        Ok(())
    }
}

/// Divides the sorted rows into buckets. Equal values stay together; the last bucket takes the rest.
fn distribute(plan: &Plan, rows: &mut Rows, cx: &Cx<'_>) -> Result<Vec<OneBucket>> {
    let size = (rows.total as f64 / plan.buckets as f64).round().max(1.0) as usize;
    let mut buckets: Vec<OneBucket> = Vec::new();
    // The sort key of the last row that was taken.
    let mut last_key = Vec::new();
    while let Some(first) = rows.current()? {
        let mut min = ValueBuf::new(first.group_key());
        let share = if buckets.len() + 1 == plan.buckets { usize::MAX } else { size };
        let mut states = started(plan, cx)?;
        let mut taken = 0;
        while taken < share
            && let Some(row) = rows.current()?
        {
            add(plan, &mut states, row, cx)?;
            taken += 1;
            rows.step()?;
        }
        let last = rows.before().map_or(Value::Null, |row| row.group_key());
        let max = match &plan.granularity {
            Some(granularity) => ValueBuf::new(granularity.round_up(last)?),
            None => ValueBuf::new(last),
        };
        last_key.clear();
        last_key.extend_from_slice(rows.before().map_or(&[], |row| row.key));
        let belongs = |row: &Row<'_>| match plan.granularity {
            Some(_) => compare::values(row.group_key(), max.value()).is_lt(),
            None => row.key == last_key,
        };
        while let Some(row) = rows.current()?.filter(belongs) {
            add(plan, &mut states, row, cx)?;
            rows.step()?;
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
    let mut states: Vec<_> = plan.output.iter().map(|field| field.accum.new_state()).collect();
    for state in &mut states {
        state.start(Value::Null, cx.vars, cx.env.now_ms())?;
    }
    Ok(states)
}

fn add(plan: &Plan, states: &mut [Box<dyn Accumulator>], row: Row<'_>, cx: &Cx<'_>) -> Result<()> {
    cx.pass()?;
    for (field, state) in plan.output.iter().zip(states) {
        let argument = field.constant().unwrap_or_else(|| row.argument(&field.argument));
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
        for (field, state) in plan.output.iter().zip(&mut bucket.states) {
            state.finish(out.slot(&field.name));
        }
    }))
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.fill(cx)?;
        cx.pass()?;
        let more = self.next < self.done.len();
        self.next += usize::from(more);
        Ok(more)
    }

    gathers_portions!(gathering);

    fn doc(&self) -> Doc<'_> {
        self.done[self.next - 1].as_doc()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        self.stats.show_spills(out);
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.distributed { Ok(()) } else { self.inputs[0].restore(cx) }
    }
}
