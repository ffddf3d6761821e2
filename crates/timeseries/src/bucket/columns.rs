//! Single columns of a bucket, for readers that need no whole measurements.

use nagi_bson::{Doc, DocWriter, Value, number};
use nagi_error::{Code, Result, bail};

use super::Shape;
use crate::column::{self, Decoder, LEAVES_MAX};

/// The most measurements that a bucket is believed to have without counting them: far more than servers put into one.
const COUNT_MAX: i64 = 100_000;

/// The most values between two calls of `pass`.
const PASSED_MAX: usize = 4096;

/// A bucket of version 2 or 3, whose columns are read one by one.
pub struct Columns<'a> {
    control: Doc<'a>,
    data: Doc<'a>,
    /// The number of leaves that interleaved documents of all columns may still have.
    budget: usize,
}

impl<'a> Columns<'a> {
    /// None for a bucket without columns, which an [`Unpacker`](super::Unpacker) may read.
    pub fn of(bucket: Doc<'a>) -> Option<Columns<'a>> {
        let (control, data) = (bucket.get("control").as_doc()?, bucket.get("data").as_doc()?);
        let columnar = matches!(number::truncate_to_i64(control.get("version")), Some(2 | 3));
        columnar.then_some(Columns { control, data, budget: LEAVES_MAX })
    }

    /// The range of a field's values, as the bucket says it. That of times begins at the bucket's begin.
    pub fn range(&self, field: &str) -> (Value<'a>, Value<'a>) {
        let end = |end| self.control.get(end).as_doc().map_or(Value::Missing, |end| end.get(field));
        (end("min"), end("max"))
    }

    /// True if measurements have such a field.
    pub fn has(&self, field: &str) -> bool {
        !self.data.get(field).is_missing()
    }

    /// The number of measurements, as the bucket says it; none if that is not plausible.
    pub fn count(&self) -> Option<usize> {
        let count = number::as_i64_exact(self.control.get("count"))?;
        (0..=COUNT_MAX).contains(&count).then_some(count as usize)
    }

    /// The column of a field. None if no measurement has it, or what is there is no column.
    pub fn column(&self, field: &str) -> Option<Decoder<'a>> {
        column_of(self.data.get(field)).ok()
    }

    /// False if what is there for a field is no column.
    pub fn is_column_or_missing(&self, field: &str) -> bool {
        !self.has(field) || self.column(field).is_some()
    }

    /// Calls `f` with the next `count` values of a column; see [`Decoder::each`].
    ///
    /// # Errors
    /// If the column is not valid, and those of `f`.
    pub fn each(
        &mut self,
        column: &mut Decoder<'a>,
        count: usize,
        f: &mut impl FnMut(Value<'_>) -> Result<()>,
    ) -> Result<usize> {
        column.each(count, &mut self.budget, f)
    }

    /// Writes the measurement of a number, whose time is known, with the fields that the shape wants. Calls `pass`
    /// again and again: few bytes may stand for very many values.
    ///
    /// # Errors
    /// If a column is not valid, and those of `pass`.
    pub fn write(
        bucket: Doc<'a>,
        shape: &Shape,
        (row, time): (usize, Value<'_>),
        mut out: DocWriter<'_>,
        pass: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        out.put(&shape.time_field, time);
        if let Some(meta) = shape.meta_field.as_deref().filter(|meta| shape.has(meta)) {
            out.put(meta, bucket.get("meta"));
        }
        let mut budget = LEAVES_MAX;
        for field in bucket.get("data").as_doc().unwrap_or(Doc::EMPTY) {
            let name = field.name();
            if name == &*shape.time_field || !shape.has(name) {
                continue;
            }
            let mut column = column_of(field.value())?;
            let mut passed = 0;
            while passed < row {
                pass()?;
                let next = (row - passed).min(PASSED_MAX);
                column.each(next, &mut budget, &mut |_| Ok(()))?;
                passed += next;
            }
            column.each(1, &mut budget, &mut |value| {
                out.put(name, value);
                Ok(())
            })?;
        }
        out.finish();
        Ok(())
    }
}

/// # Errors
/// 2 for a value that is no column.
fn column_of(value: Value<'_>) -> Result<Decoder<'_>> {
    match value {
        Value::Binary(binary) if binary.subtype == column::SUBTYPE => {
            Ok(Decoder::new(binary.bytes))
        }
        other => bail!(
            Code::BAD_VALUE,
            "A field of a bucket has the wrong type '{}'",
            other.kind().name()
        ),
    }
}
