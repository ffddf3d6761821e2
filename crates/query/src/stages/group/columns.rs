//! `$group` directly over the buckets of a time series, by their columns.
//!
//! ```text
//!   times of a block        t0 t1 t2 t3 t4 t5 ...
//!   runs by key             |- 7 -|-- not wanted --|-- 8 --|        the key of a run is evaluated once, or a few times
//!   column of `v`           v0 v1 v2 v3 v4 v5 ...                   each wanted value goes to the state of its run
//! ```
//!
//! If all measurements of a bucket are wanted and have one key, its times are not decoded; for the smallest and largest
//! values the bucket's ranges are enough.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::accum::{AccumSpec, States};
use nagi_lang::expr::{Deps, Expr, Granule};
use nagi_timeseries::bucket::Columns;
use nagi_timeseries::column::Decoder;

use super::super::prelude::*;
use super::Grouping;
use super::groups::{Groups, SUMS, number_of, out_of_order};
use crate::stages::unpack_columns::{ByColumns, Times};

/// Accumulators that take one value after another and keep a bounded number of them.
const COLUMNAR: [&str; 9] =
    ["$avg", "$count", "$first", "$last", "$max", "$min", "$stdDevPop", "$stdDevSamp", "$sum"];

/// Accumulators that keep one of their values.
const KEEPING: [&str; 4] = ["$first", "$last", "$max", "$min"];

/// How a group reads buckets.
pub(super) struct Plan {
    by: ByColumns,
    /// How long the key stays the same; none if all measurements of a bucket have the same.
    key: Option<Granule>,
    args: Vec<Arg>,
    /// The fields of which columns are read.
    fields: Vec<Box<str>>,
    /// How many of the accumulators keep a value.
    keeping: usize,
}

/// What an accumulator takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arg {
    /// The same value for all measurements of a bucket.
    Bucket,
    Time,
    /// One of the fields of the plan.
    Field(usize),
}

/// Measurements, one after another, of one group; none if they are not wanted.
struct Run {
    rows: usize,
    group: Option<usize>,
}

impl Plan {
    /// None if the group needs more than single columns.
    pub(super) fn new(grouping: &Grouping, by: ByColumns) -> Option<Plan> {
        let key = key_of(&grouping.id, &by)?;
        let mut fields = Vec::new();
        let args = grouping.fields.iter().map(|(_, accum)| arg_of(accum, &by, &mut fields));
        let args = args.collect::<Option<_>>()?;
        let keeps = |(_, accum): &&(Box<str>, AccumSpec)| KEEPING.contains(&accum.name());
        let keeping = grouping.fields.iter().filter(keeps).count();
        Some(Plan { by, key, args, fields, keeping })
    }

    fn reads_times(&self) -> bool {
        self.key.is_some() || self.args.contains(&Arg::Time)
    }

    /// True if each column that is read is there or is missing.
    fn is_readable(&self, bucket: &Columns<'_>) -> bool {
        self.by.is_readable(bucket)
            && self.fields.iter().all(|name| bucket.is_column_or_missing(name))
    }
}

/// How the key depends on the time; none if it depends on more than time and metadata.
fn key_of(id: &Expr, by: &ByColumns) -> Option<Option<Granule>> {
    let mut deps = Deps::default();
    id.deps(&mut deps);
    let first = |path: &String| path.split('.').next().map(str::to_owned);
    deps.paths.retain(|path| first(path).as_deref() != by.meta_field());
    let reads_time = deps.paths.remove(by.time_field());
    let known = deps.paths.is_empty() && is_known(&deps);
    known.then(|| reads_time.then(|| id.granule(by.time_field())))
}

/// True if the value depends only on the paths, and is the same each time.
fn is_known(deps: &Deps) -> bool {
    !deps.whole && !deps.random && !deps.scripted
}

fn arg_of(accum: &AccumSpec, by: &ByColumns, fields: &mut Vec<Box<str>>) -> Option<Arg> {
    if !COLUMNAR.contains(&accum.name()) {
        return None;
    }
    let mut deps = Deps::default();
    accum.deps(&mut deps);
    let of_meta = |path: &String| path.split('.').next() == by.meta_field();
    if is_known(&deps) && deps.paths.iter().all(of_meta) {
        return Some(Arg::Bucket);
    }
    match accum.argument() {
        Expr::Path(path) => match path.parts() {
            [(_, name)] if &**name == by.time_field() => Some(Arg::Time),
            [(_, name)] => {
                let known = fields.iter().position(|field| field == name);
                Some(Arg::Field(known.unwrap_or_else(|| {
                    fields.push(name.clone());
                    fields.len() - 1
                })))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A measurement of which only time and metadata are known.
struct Known {
    bytes: Vec<u8>,
    /// The position of the time.
    time_at: usize,
}

impl Known {
    fn new(by: &ByColumns, bucket: Doc<'_>) -> Known {
        let mut bytes = Vec::new();
        let mut out = DocWriter::new(&mut bytes);
        out.put(by.time_field(), Value::DateTime(0));
        if let Some(meta) = by.meta_field() {
            out.put(meta, bucket.get("meta"));
        }
        out.finish();
        // Length, type, name.
        Known { bytes, time_at: 4 + 1 + by.time_field().len() + 1 }
    }

    fn at(&mut self, time: i64) -> Doc<'_> {
        self.bytes[self.time_at..self.time_at + 8].copy_from_slice(&time.to_le_bytes());
        Doc::trusted(&self.bytes)
    }
}

/// A bucket while it is read.
struct Reading<'b, 'p> {
    plan: &'p Plan,
    bucket: Columns<'b>,
    /// The size of the document.
    bytes: usize,
    known: Known,
    /// The column of each field of the plan; none if no measurement has it.
    columns: Vec<Option<Decoder<'b>>>,
    /// The value of each accumulator that takes one of the bucket, once a measurement is wanted.
    values: Option<Vec<ValueBuf>>,
    runs: Vec<Run>,
}

impl<'b, 'p> Reading<'b, 'p> {
    fn new(plan: &'p Plan, bucket: Columns<'b>, doc: Doc<'b>) -> Reading<'b, 'p> {
        let columns = plan.fields.iter().map(|name| bucket.column(name)).collect();
        let (known, bytes) = (Known::new(&plan.by, doc), doc.len());
        Reading { plan, bucket, bytes, known, columns, values: None, runs: Vec::new() }
    }
}

impl Groups {
    /// Takes the measurements of a bucket.
    pub(super) fn take_bucket(
        &mut self,
        plan: &Arc<Plan>,
        bucket: Doc<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let columns = Columns::of(bucket).filter(|columns| plan.is_readable(columns));
        let Some(columns) = columns else {
            return plan
                .by
                .unpack(bucket, 0, cx, &mut |doc, cx| self.take_doc((doc, Doc::EMPTY), cx));
        };
        let mut reading = Reading::new(plan, columns, bucket);
        let whole = plan.by.whole(&reading.bucket).filter(|_| !plan.reads_times());
        if let Some(rows) = whole {
            if rows == 0 {
                return Ok(());
            }
            let group = self.group_at(&mut reading.known, 0, cx)?;
            reading.runs.push(Run { rows, group: Some(group) });
            self.add_runs(&mut reading, &[], true, cx)?;
            return self.fit(cx);
        }
        let mut times = Times::new(&plan.by, &reading.bucket);
        while times.advance(&mut reading.bucket, cx)? {
            let (mut rest, mut wanted) = (&times.block[..], &times.wanted[..]);
            while !rest.is_empty() {
                let rows = self.divide(&mut reading, rest, wanted, cx)?;
                self.add_runs(&mut reading, &rest[..rows], false, cx)?;
                self.fit(cx)?;
                (rest, wanted) = (&rest[rows..], &wanted[rows..]);
            }
        }
        if times.odd {
            return plan.by.unpack(bucket, times.before, cx, &mut |doc, cx| {
                self.take_doc((doc, Doc::EMPTY), cx)
            });
        }
        Ok(())
    }

    /// Divides measurements into runs of one group, until memory may be full with what their accumulators keep. Returns
    /// how many it has divided.
    fn divide(
        &mut self,
        reading: &mut Reading<'_, '_>,
        times: &[i64],
        wanted: &[bool],
        cx: &Cx<'_>,
    ) -> Result<usize> {
        let Reading { plan, known, runs, bytes, .. } = reading;
        runs.clear();
        // A value of a bucket is hardly larger than the bucket.
        let (kept, mut pending) = (plan.keeping * *bytes, 0);
        let mut at = 0;
        while at < times.len() {
            let same = wanted[at..].iter().take_while(|one| **one == wanted[at]).count();
            if !wanted[at] {
                runs.push(Run { rows: same, group: None });
                at += same;
                continue;
            }
            let end = at + same;
            while at < end {
                let group = self.group_at(known, times[at], cx)?;
                pending += kept;
                let rows = match plan.key {
                    None => end - at,
                    Some(granule) => {
                        let (from, to) = granule.around(times[at]);
                        let same = |time: &&i64| from <= **time && **time < to;
                        times[at..end].iter().take_while(same).count().max(1)
                    }
                };
                runs.push(Run { rows, group: Some(group) });
                at += rows;
                if self.bytes() + pending > self.memory_bytes_max {
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }

    /// The group of a time.
    fn group_at(&mut self, known: &mut Known, time: i64, cx: &Cx<'_>) -> Result<usize> {
        let key = self.grouping.id.eval(&cx.eval(known.at(time), &self.arena))?;
        let own = self.grouping.collation;
        let (group, _) = number_of(&mut self.table, &mut self.states, (key, own), cx)?;
        renew(&mut self.arena);
        Ok(group)
    }

    /// Evaluates the arguments that are the same for the whole bucket. Without a wanted measurement nothing may fail.
    fn values(&mut self, reading: &mut Reading<'_, '_>, cx: &Cx<'_>) -> Result<()> {
        let mut values = Vec::new();
        for (arg, (_, accum)) in reading.plan.args.iter().zip(&self.grouping.fields) {
            let eval = cx.eval(reading.known.at(0), &self.arena);
            values.push(match arg {
                Arg::Bucket => ValueBuf::new(accum.argument().eval(&eval)?),
                Arg::Time | Arg::Field(_) => ValueBuf::new(Value::Missing),
            });
            renew(&mut self.arena);
        }
        reading.values = Some(values);
        Ok(())
    }

    /// Adds the values of the runs to their groups.
    fn add_runs(
        &mut self,
        reading: &mut Reading<'_, '_>,
        times: &[i64],
        whole: bool,
        cx: &Cx<'_>,
    ) -> Result<()> {
        if reading.values.is_none() && reading.runs.iter().any(|run| run.group.is_some()) {
            self.values(reading, cx)?;
        }
        let later = self.later;
        let mut takers: Vec<Vec<Taker<'_>>> = Vec::new();
        takers.resize_with(reading.plan.fields.len(), Vec::new);
        let fields = self.grouping.fields.iter().zip(&mut self.states).enumerate();
        for (at, ((_, accum), states)) in fields {
            let states = &mut **states;
            let ordered = later && SUMS.contains(&accum.name());
            match reading.plan.args[at] {
                Arg::Bucket => {
                    let Some(values) = &reading.values else { continue };
                    let once = KEEPING.contains(&accum.name());
                    Taker { states, ordered }.add_same(
                        &reading.runs,
                        (values[at].value(), once),
                        cx,
                    )?;
                }
                Arg::Time => add_times(states, &reading.runs, times, cx)?,
                Arg::Field(field) => {
                    let name = &reading.plan.fields[field];
                    let end = whole.then(|| extreme(accum.name(), name, &reading.bucket)).flatten();
                    match (&*reading.runs, end) {
                        ([Run { group: Some(group), .. }], Some(value)) => {
                            states.add(*group, value, cx.vars)?;
                        }
                        _ => takers[field].push(Taker { states, ordered }),
                    }
                }
            }
        }
        for (field, takers) in takers.iter_mut().enumerate() {
            // A column that is not read in one block must not be read in the next.
            if !takers.is_empty() {
                add_column(takers, reading, field, cx)?;
            }
        }
        Ok(())
    }
}

/// What takes the values of a column.
struct Taker<'s> {
    states: &'s mut dyn States,
    /// True if decimals must be added in the order of the documents, and this thread has later ones.
    ordered: bool,
}

impl Taker<'_> {
    #[inline]
    fn add(&mut self, group: usize, value: Value<'_>, cx: &Cx<'_>) -> Result<()> {
        if self.ordered && matches!(value, Value::Decimal128(_)) {
            return Err(out_of_order());
        }
        self.states.add(group, value, cx.vars)
    }

    /// `once`: it does not matter how often the value is added.
    fn add_same(
        &mut self,
        runs: &[Run],
        (value, once): (Value<'_>, bool),
        cx: &Cx<'_>,
    ) -> Result<()> {
        if self.ordered && matches!(value, Value::Decimal128(_)) {
            return Err(out_of_order());
        }
        for run in runs {
            if let Some(group) = run.group {
                cx.pass()?;
                let times = if once { 1 } else { run.rows };
                self.states.add_many(group, value, times, cx.vars)?;
            }
        }
        Ok(())
    }
}

fn add_times(states: &mut dyn States, runs: &[Run], times: &[i64], cx: &Cx<'_>) -> Result<()> {
    let mut rest = times;
    for run in runs {
        let (own, after) = rest.split_at(run.rows);
        rest = after;
        let Some(group) = run.group else { continue };
        own.iter().try_for_each(|time| states.add(group, Value::DateTime(*time), cx.vars))?;
    }
    Ok(())
}

/// How many doubles are added to an accumulator at a time.
const DOUBLES_MAX: usize = 256;

/// Adds the doubles that were read since the last other value, so that all values are added in their order.
#[inline]
fn add_doubles(
    takers: &mut [Taker<'_>],
    group: usize,
    doubles: &mut Vec<f64>,
    cx: &Cx<'_>,
) -> Result<()> {
    if !doubles.is_empty() {
        for taker in takers {
            taker.states.add_doubles(group, doubles, cx.vars)?;
        }
        doubles.clear();
    }
    Ok(())
}

fn add_column(
    takers: &mut [Taker<'_>],
    reading: &mut Reading<'_, '_>,
    field: usize,
    cx: &Cx<'_>,
) -> Result<()> {
    let Reading { bucket, columns, runs, .. } = reading;
    let mut doubles = Vec::with_capacity(DOUBLES_MAX);
    for run in runs {
        let read = match (&mut columns[field], run.group) {
            (None, _) => 0,
            (Some(column), None) => bucket.each(column, run.rows, &mut |_| Ok(()))?,
            (Some(column), Some(group)) => {
                let read = bucket.each(column, run.rows, &mut |value| {
                    if let Value::Double(double) = value {
                        doubles.push(double);
                        if doubles.len() < DOUBLES_MAX {
                            return Ok(());
                        }
                        return add_doubles(takers, group, &mut doubles, cx);
                    }
                    look(value, cx)?;
                    add_doubles(takers, group, &mut doubles, cx)?;
                    takers.iter_mut().try_for_each(|taker| taker.add(group, value, cx))
                })?;
                add_doubles(takers, group, &mut doubles, cx)?;
                read
            }
        };
        // A column may be shorter than that of the times.
        if let Some(group) = run.group {
            let missing = run.rows - read;
            takers.iter_mut().try_for_each(|taker| {
                taker.states.add_many(group, Value::Missing, missing, cx.vars)
            })?;
        }
    }
    Ok(())
}

/// Looks at the interrupt for values that may be large.
#[inline]
fn look(value: Value<'_>, cx: &Cx<'_>) -> Result<()> {
    match value {
        Value::Doc(_) | Value::Array(_) | Value::String(_) | Value::Binary(_) => cx.pass(),
        _ => Ok(()),
    }
}

/// The smallest or largest value of a field, if the accumulator wants it and the range of the bucket has it.
///
/// The range does not say it if values are null, objects or strings: `$min` passes over null, the range of objects is
/// made of the ranges of their fields, and the order of strings depends on a collation.
fn extreme<'b>(accum: &str, field: &str, bucket: &Columns<'b>) -> Option<Value<'b>> {
    let (min, max) = bucket.range(field);
    let value = match accum {
        "$min" => min,
        "$max" => max,
        _ => return None,
    };
    (bucket.has(field) && is_plain(min) && is_plain(max)).then_some(value)
}

/// True if an extreme of this type is the extreme of all values.
fn is_plain(value: Value<'_>) -> bool {
    !matches!(
        value,
        Value::Missing
            | Value::Null
            | Value::Undefined
            | Value::Doc(_)
            | Value::Array(_)
            | Value::String(_)
            | Value::Symbol(_)
    )
}
