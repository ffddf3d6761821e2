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
//! Comparisons of other fields are tested column by column. Buckets without columns (version 1), and arrays in a column
//! of a condition, are unpacked as ever.

use std::sync::Arc;

use nagi_lang::filter::{CompareOp, Filter, Pred};
use nagi_timeseries::{
    bucket::{Columns, Shape, Unpacker},
    column::Decoder,
};

use super::prelude::*;

/// Which measurements of buckets are wanted: those of a range of times that fulfill some comparisons.
pub(crate) struct ByColumns {
    shape: Arc<Shape>,
    filter: Option<Arc<Filter>>,
    conditions: Vec<Condition>,
    /// Both ends are in the range.
    from: i64,
    to: i64,
}

/// A bucket takes about so many times as long as a document.
pub(super) const BUCKET_WEIGHT: u64 = 64;

/// A comparison of a top-level field.
struct Condition {
    field: Box<str>,
    pred: Pred,
}

/// The first and the last date that fulfill a comparison with a date. None for other predicates, and at the last date
/// of all, because nothing is beyond it.
pub(super) fn dates_compared(pred: &Pred) -> Option<(i64, i64)> {
    let Pred::Compare { op, value, .. } = pred else { return None };
    let Value::DateTime(time) = value.value() else { return None };
    let (after, before) = (time.checked_add(1)?, time.checked_sub(1)?);
    Some(match op {
        CompareOp::Eq => (time, time),
        CompareOp::Gt => (after, i64::MAX),
        CompareOp::Gte => (time, i64::MAX),
        CompareOp::Lt => (i64::MIN, before),
        CompareOp::Lte => (i64::MIN, time),
    })
}

impl ByColumns {
    /// Measurements of buckets of this shape that match the filter. None unless it consists of comparisons.
    pub(super) fn new(shape: Arc<Shape>, filter: Option<Arc<Filter>>) -> Option<ByColumns> {
        if shape.meta_field.as_deref() == Some(&*shape.time_field) {
            return None;
        }
        let (own, conditions) = (filter.clone(), Vec::new());
        let mut all = ByColumns { shape, filter: own, conditions, from: i64::MIN, to: i64::MAX };
        if let Some(filter) = filter {
            all.narrow(&filter)?;
        }
        Some(all)
    }

    fn narrow(&mut self, filter: &Filter) -> Option<()> {
        match filter {
            Filter::And(parts) => parts.iter().try_for_each(|part| self.narrow(part)),
            Filter::Field { path, pred: pred @ Pred::Compare { .. } }
                if path.as_str() == &*self.shape.time_field =>
            {
                let (from, to) = dates_compared(pred)?;
                (self.from, self.to) = (self.from.max(from), self.to.min(to));
                Some(())
            }
            Filter::Field { path, pred } => {
                let field = path.as_str();
                let known = !field.contains('.') && Some(field) != self.meta_field();
                let known = known && field != self.time_field() && pred.is_plain_comparison();
                known.then(|| {
                    self.conditions.push(Condition { field: field.into(), pred: pred.clone() });
                })
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
    fn has(&self, time: i64) -> bool {
        self.from <= time && time <= self.to
    }

    /// The number of measurements, if the bucket says it and all of them are wanted.
    pub(super) fn whole(&self, bucket: &Columns<'_>) -> Option<usize> {
        if !self.conditions.is_empty() {
            return None;
        }
        match bucket.range(&self.shape.time_field) {
            (Value::DateTime(first), Value::DateTime(last)) => {
                bucket.count().filter(|_| self.has(first) && self.has(last))
            }
            _ => None,
        }
    }

    /// True if the bucket has a column of times, no other values where columns are, and none for the metadata.
    pub(super) fn is_readable(&self, bucket: &Columns<'_>) -> bool {
        bucket.column(&self.shape.time_field).is_some()
            && !self.meta_field().is_some_and(|meta| bucket.has(meta))
            && self.conditions.iter().all(|one| bucket.is_column_or_missing(&one.field))
    }

    /// Writes one measurement, of which the number and the time are known.
    pub(super) fn measurement(
        &self,
        bucket: Doc<'_>,
        (row, time): (usize, i64),
        out: &mut Vec<u8>,
        cx: &Cx<'_>,
    ) -> Result<()> {
        let time = Value::DateTime(time);
        Columns::write(bucket, &self.shape, (row, time), DocWriter::new(out), &|| cx.pass())
    }

    /// Unpacks the bucket, and calls `f` with each measurement that is wanted, after the first `passed` ones. For a
    /// budget of entries it is one, because it is not continued in its middle.
    pub(super) fn unpack(
        &self,
        bucket: Doc<'_>,
        passed: usize,
        cx: &mut Cx<'_>,
        f: &mut impl FnMut(Doc<'_>, &mut Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut unpacker = Unpacker::new(bucket, &self.shape)?;
        for _ in 0..passed {
            cx.pass()?;
            unpacker.skip()?;
        }
        let (mut measurement, mut arena) = (Vec::new(), Bump::new());
        while unpacker.append(&mut measurement)? {
            cx.pass()?;
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

/// Reads the times of a bucket in blocks, and which of its measurements are wanted.
pub(super) struct Times<'b, 'p> {
    by: &'p ByColumns,
    column: Option<Decoder<'b>>,
    conditions: Vec<Option<Decoder<'b>>>,
    /// The present block.
    pub(super) block: Vec<i64>,
    pub(super) wanted: Vec<bool>,
    /// The number of measurements before it.
    pub(super) before: usize,
    /// True if a value that must be unpacked follows the block.
    pub(super) odd: bool,
}

/// The most measurements of a block: what is between two looks at the interrupt.
const BLOCK_MAX: usize = 4096;

impl<'b, 'p> Times<'b, 'p> {
    pub(super) fn new(by: &'p ByColumns, bucket: &Columns<'b>) -> Times<'b, 'p> {
        let column = bucket.column(&by.shape.time_field);
        let conditions = by.conditions.iter().map(|one| bucket.column(&one.field)).collect();
        let (block, wanted) = (Vec::new(), Vec::new());
        Times { by, column, conditions, block, wanted, before: 0, odd: false }
    }

    /// Reads the next block. False at the end, or if it is empty.
    pub(super) fn advance(&mut self, bucket: &mut Columns<'b>, cx: &Cx<'_>) -> Result<bool> {
        cx.pass()?;
        self.before += self.block.len();
        self.block.clear();
        self.wanted.clear();
        let (Some(column), false) = (&mut self.column, self.odd) else { return Ok(false) };
        let (block, odd) = (&mut self.block, &mut self.odd);
        bucket.each(column, BLOCK_MAX, &mut |time| {
            match time {
                Value::DateTime(time) if !*odd => block.push(time),
                _ => *odd = true,
            }
            Ok(())
        })?;
        self.wanted.extend(self.block.iter().map(|time| self.by.has(*time)));
        self.test(bucket)?;
        Ok(!self.block.is_empty())
    }

    /// Tests the conditions on the block.
    fn test(&mut self, bucket: &mut Columns<'b>) -> Result<()> {
        for (condition, column) in self.by.conditions.iter().zip(&mut self.conditions) {
            let (mut rows, mut array) = (0, None);
            if let Some(column) = column {
                let wanted = &mut self.wanted;
                rows = bucket.each(column, self.block.len(), &mut |value| {
                    match condition.pred.compares(value) {
                        Some(holds) => wanted[rows] &= holds,
                        None => array = array.or(Some(rows)),
                    }
                    rows += 1;
                    Ok(())
                })?;
            }
            // A missing value fulfills none of them.
            self.wanted[rows..].fill(false);
            if let Some(first) = array {
                self.odd = true;
                self.block.truncate(first);
                self.wanted.truncate(first);
            }
        }
        Ok(())
    }
}
