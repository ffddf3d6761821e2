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

/// How a group reads buckets.
pub(super) struct Plan {
    by: ByColumns,
    /// How long the key stays the same; none if all measurements of a bucket have the same.
    key: Option<Granule>,
    args: Vec<Arg>,
}

/// What an accumulator takes.
enum Arg {
    /// The same value for all measurements of a bucket.
    Bucket,
    Time,
    Field(Box<str>),
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
        let args = grouping.fields.iter().map(|(_, accum)| arg_of(accum, &by));
        let args = args.collect::<Option<_>>()?;
        Some(Plan { by, key, args })
    }

    fn reads_times(&self) -> bool {
        self.key.is_some() || self.args.iter().any(|arg| matches!(arg, Arg::Time))
    }

    /// True if each column that is read is there or is missing.
    fn is_readable(&self, bucket: &Columns<'_>) -> bool {
        self.by.is_readable(bucket)
            && self.args.iter().all(|arg| match arg {
                Arg::Field(name) => bucket.is_column_or_missing(name),
                Arg::Bucket | Arg::Time => true,
            })
    }
}

/// How the key depends on the time; none if it depends on more than time and metadata.
fn key_of(id: &Expr, by: &ByColumns) -> Option<Option<Granule>> {
    let mut deps = Deps::default();
    id.deps(&mut deps);
    let first = |path: &String| path.split('.').next().map(str::to_owned);
    deps.paths.retain(|path| first(path).as_deref() != by.meta_field());
    let reads_time = deps.paths.remove(by.time_field());
    let known = deps.paths.is_empty() && !deps.whole && !deps.random;
    known.then(|| reads_time.then(|| id.granule(by.time_field())))
}

fn arg_of(accum: &AccumSpec, by: &ByColumns) -> Option<Arg> {
    if !COLUMNAR.contains(&accum.name()) {
        return None;
    }
    let mut deps = Deps::default();
    accum.deps(&mut deps);
    let of_meta = |path: &String| path.split('.').next() == by.meta_field();
    if !deps.whole && !deps.random && deps.paths.iter().all(of_meta) {
        return Some(Arg::Bucket);
    }
    match accum.argument() {
        Expr::Path(path) => match path.parts() {
            [(_, name)] if &**name == by.time_field() => Some(Arg::Time),
            [(_, name)] => Some(Arg::Field(name.clone())),
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
    known: Known,
    /// For each accumulator, its column or its only value.
    columns: Vec<Option<Decoder<'b>>>,
    values: Vec<ValueBuf>,
    runs: Vec<Run>,
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
        let mut reading = self.open(plan, columns, bucket, cx)?;
        let whole = plan.by.whole(&reading.bucket).filter(|_| !plan.reads_times());
        if let Some(rows) = whole {
            if rows == 0 {
                return Ok(());
            }
            let (group, _) = self.group_at(&mut reading.known, 0, cx)?;
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

    fn open<'b, 'p>(
        &mut self,
        plan: &'p Plan,
        bucket: Columns<'b>,
        doc: Doc<'b>,
        cx: &Cx<'_>,
    ) -> Result<Reading<'b, 'p>> {
        let known = Known::new(&plan.by, doc);
        let mut reading = Reading {
            plan,
            bucket,
            known,
            columns: Vec::new(),
            values: Vec::new(),
            runs: Vec::new(),
        };
        for (arg, (_, accum)) in plan.args.iter().zip(&self.grouping.fields) {
            let (column, value) = match arg {
                Arg::Bucket => {
                    let eval = cx.eval(reading.known.at(0), &self.arena);
                    (None, ValueBuf::new(accum.argument().eval(&eval)?))
                }
                Arg::Time => (None, ValueBuf::new(Value::Missing)),
                Arg::Field(name) => (reading.bucket.column(name), ValueBuf::new(Value::Missing)),
            };
            reading.columns.push(column);
            reading.values.push(value);
            renew(&mut self.arena);
        }
        Ok(reading)
    }

    /// Divides measurements into runs of one group, until memory is full. Returns how many it has divided.
    fn divide(
        &mut self,
        reading: &mut Reading<'_, '_>,
        times: &[i64],
        wanted: &[bool],
        cx: &Cx<'_>,
    ) -> Result<usize> {
        let Reading { plan, known, runs, .. } = reading;
        runs.clear();
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
                let (group, is_full) = self.group_at(known, times[at], cx)?;
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
                if is_full {
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }

    /// The group of a time, and true if memory may be full.
    fn group_at(&mut self, known: &mut Known, time: i64, cx: &Cx<'_>) -> Result<(usize, bool)> {
        let key = self.grouping.id.eval(&cx.eval(known.at(time), &self.arena))?;
        let own = self.grouping.collation;
        let (group, is_new) = number_of(&mut self.table, &mut self.states, (key, own), cx)?;
        renew(&mut self.arena);
        Ok((group, is_new && self.bytes() > self.memory_bytes_max))
    }

    /// Adds the values of the runs to their groups.
    fn add_runs(
        &mut self,
        reading: &mut Reading<'_, '_>,
        times: &[i64],
        whole: bool,
        cx: &Cx<'_>,
    ) -> Result<()> {
        let later = self.later;
        let fields = self.grouping.fields.iter().zip(&mut self.states).enumerate();
        for (at, ((_, accum), states)) in fields {
            let states = &mut **states;
            match &reading.plan.args[at] {
                Arg::Bucket => add_same(states, &reading.runs, reading.values[at].value(), cx)?,
                Arg::Time => add_times(states, &reading.runs, times, cx)?,
                Arg::Field(name) => {
                    let end = whole.then(|| extreme(accum.name(), name, &reading.bucket)).flatten();
                    if let ([Run { group: Some(group), .. }], Some(value)) = (&*reading.runs, end) {
                        states.add(*group, value, cx.vars)?;
                        continue;
                    }
                    let ordered = later && SUMS.contains(&accum.name());
                    add_column(states, reading, (at, ordered), cx)?;
                }
            }
        }
        Ok(())
    }
}

fn add_same(states: &mut dyn States, runs: &[Run], value: Value<'_>, cx: &Cx<'_>) -> Result<()> {
    for run in runs {
        if let Some(group) = run.group {
            states.add_many(group, value, run.rows, cx.vars)?;
        }
    }
    Ok(())
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

fn add_column(
    states: &mut dyn States,
    reading: &mut Reading<'_, '_>,
    (at, ordered): (usize, bool),
    cx: &Cx<'_>,
) -> Result<()> {
    let Reading { bucket, columns, runs, .. } = reading;
    for run in runs {
        let read = match (&mut columns[at], run.group) {
            (None, _) => 0,
            (Some(column), None) => bucket.each(column, run.rows, &mut |_| Ok(()))?,
            (Some(column), Some(group)) => bucket.each(column, run.rows, &mut |value| {
                if ordered && matches!(value, Value::Decimal128(_)) {
                    return Err(out_of_order());
                }
                states.add(group, value, cx.vars)
            })?,
        };
        // A column may be shorter than that of the times.
        if let Some(group) = run.group {
            states.add_many(group, Value::Missing, run.rows - read, cx.vars)?;
        }
    }
    Ok(())
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
