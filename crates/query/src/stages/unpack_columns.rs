//! Reads buckets by columns instead of measurement by measurement, for stages that gather few values of many
//! measurements.
//!
//! ```text
//!   [{$_internalUnpackBucket: ..}, {$match: {t: {$gte: a, $lt: b}}}, {$group: {_id: "$m", v: {$avg: "$v"}}}]
//!
//!   bucket within the range:   `v` is decoded, each value is added to the group of `m`
//!   bucket at an end of it:    `t` is decoded as well, to know which values count
//! ```
//!
//! Buckets without columns (version 1) are unpacked as ever.

use std::sync::Arc;

use nagi_lang::filter::{CompareOp, Filter, Pred};
use nagi_timeseries::bucket::{Columns, Shape, Unpacker};

use super::prelude::*;

/// Which measurements of buckets are wanted: those of a range of times.
pub(crate) struct ByColumns {
    shape: Arc<Shape>,
    filter: Option<Arc<Filter>>,
    /// Both ends are in the range.
    from: i64,
    to: i64,
}

impl ByColumns {
    /// Measurements of buckets of this shape that match the filter. None unless it is a range of times.
    pub(super) fn new(shape: Arc<Shape>, filter: Option<Arc<Filter>>) -> Option<ByColumns> {
        let mut all = ByColumns { shape, filter: filter.clone(), from: i64::MIN, to: i64::MAX };
        if let Some(filter) = filter {
            all.narrow(&filter)?;
        }
        Some(all)
    }

    fn narrow(&mut self, filter: &Filter) -> Option<()> {
        match filter {
            Filter::And(parts) => parts.iter().try_for_each(|part| self.narrow(part)),
            Filter::Field { path, pred: Pred::Compare { op, value, .. } }
                if path.as_str() == &*self.shape.time_field =>
            {
                let Value::DateTime(time) = value.value() else { return None };
                // None at the last date of all: nothing is beyond it.
                let (after, before) = (time.checked_add(1)?, time.checked_sub(1)?);
                let (from, to) = match op {
                    CompareOp::Eq => (time, time),
                    CompareOp::Gt => (after, i64::MAX),
                    CompareOp::Gte => (time, i64::MAX),
                    CompareOp::Lt => (i64::MIN, before),
                    CompareOp::Lte => (i64::MIN, time),
                };
                (self.from, self.to) = (self.from.max(from), self.to.min(to));
                Some(())
            }
            _ => None,
        }
    }

    pub(super) fn time_field(&self) -> &str {
        &self.shape.time_field
    }

    pub(super) fn meta_field(&self) -> Option<&str> {
        self.shape.meta_field.as_deref()
    }

    #[inline]
    pub(super) fn has(&self, time: i64) -> bool {
        self.from <= time && time <= self.to
    }

    /// The number of measurements, if the bucket says it and all of them are wanted.
    pub(super) fn whole(&self, bucket: &Columns<'_>) -> Option<usize> {
        match bucket.range(&self.shape.time_field) {
            (Value::DateTime(first), Value::DateTime(last)) => {
                bucket.count().filter(|_| self.has(first) && self.has(last))
            }
            _ => None,
        }
    }

    /// True if the bucket has a column of times.
    pub(super) fn is_readable(&self, bucket: &Columns<'_>) -> bool {
        bucket.column(&self.shape.time_field).is_some()
    }

    /// Writes one measurement, of which the number and the time are known.
    pub(super) fn measurement(
        &self,
        bucket: Doc<'_>,
        (row, time): (usize, i64),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        Columns::write(bucket, &self.shape, (row, Value::DateTime(time)), DocWriter::new(out))
    }

    /// Unpacks the bucket, and calls `f` with each measurement that is wanted, after the first `passed` ones.
    pub(super) fn unpack(
        &self,
        bucket: Doc<'_>,
        passed: usize,
        cx: &mut Cx<'_>,
        f: &mut impl FnMut(Doc<'_>, &mut Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut unpacker = Unpacker::new(bucket, &self.shape)?;
        for _ in 0..passed {
            cx.tick()?;
            unpacker.skip()?;
        }
        let (mut measurement, mut arena) = (Vec::new(), Bump::new());
        while unpacker.append(&mut measurement)? {
            cx.tick()?;
            let doc = Doc::trusted(&measurement);
            let wanted = match &self.filter {
                Some(filter) => filter.matches(doc, &cx.matching(&arena))?,
                None => true,
            };
            renew(&mut arena);
            if wanted {
                f(doc, cx)?;
            }
            measurement.clear();
        }
        Ok(())
    }
}

/// Reads the times of a bucket in blocks.
pub(super) struct Times<'b> {
    column: Option<nagi_timeseries::column::Decoder<'b>>,
    /// The present block.
    pub(super) block: Vec<i64>,
    /// The number of measurements before it.
    pub(super) before: usize,
    /// True if a value that is no date follows the block.
    pub(super) odd: bool,
}

/// The most measurements of a block.
const BLOCK_MAX: usize = 4096;

impl<'b> Times<'b> {
    pub(super) fn new(by: &ByColumns, bucket: &Columns<'b>) -> Times<'b> {
        let column = bucket.column(&by.shape.time_field);
        Times { column, block: Vec::new(), before: 0, odd: false }
    }

    /// Reads the next block. False at the end, or if it is empty.
    pub(super) fn advance(&mut self, bucket: &mut Columns<'b>, cx: &Cx<'_>) -> Result<bool> {
        cx.tick()?;
        self.before += self.block.len();
        self.block.clear();
        let (Some(column), false) = (&mut self.column, self.odd) else { return Ok(false) };
        let (block, odd) = (&mut self.block, &mut self.odd);
        bucket.each(column, BLOCK_MAX, &mut |time| {
            match time {
                Value::DateTime(time) if !*odd => block.push(time),
                _ => *odd = true,
            }
            Ok(())
        })?;
        Ok(!self.block.is_empty())
    }
}
