//! Single columns of a bucket, for readers that need no whole measurements.

use nagi_bson::{Doc, Value, number};
use nagi_error::Result;

use crate::column::{self, Decoder, LEAVES_MAX};

/// The most measurements that a bucket is believed to have without counting them: far more than servers put into one.
const COUNT_MAX: i64 = 100_000;

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
        match self.data.get(field) {
            Value::Binary(binary) if binary.subtype == column::SUBTYPE => {
                Some(Decoder::new(binary.bytes))
            }
            _ => None,
        }
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
}
