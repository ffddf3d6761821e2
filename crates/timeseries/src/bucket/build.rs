//! Collecting the measurements of one bucket.

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value, ValueBuf};
use nagi_error::{Code, Result, bail};

use super::{
    BYTES_MAX, COUNT_MAX, COUNT_MIN, DOCUMENT_BYTES_MAX, FIELDS_MAX, LARGE_BYTES_MAX, Shape,
    Unpacker,
    fields::Fields,
    ranges::{End, Ranges},
};
use crate::{
    column::{self, Encoder, WRITTEN_LEAVES_MAX},
    options::Options,
};

/// The bytes of a stored value beside itself: type, position, terminator. Its name counts in full, as in version 1.
pub(super) const VALUE_OVERHEAD: usize = 6;

/// The memory of a column and of a range, beside names and what a column has allocated.
const FIELD_OVERHEAD: usize = 512;

/// The size of a column and of its ranges in the document, and that of the rest of the document, as far as they are not
/// counted: enough for numbers and small metadata.
const COLUMN_OVERHEAD: usize = 48;
const BUCKET_OVERHEAD: usize = 256;

/// Why a bucket does not take a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has the most measurements.
    Count,
    /// It would become too large.
    Size,
    /// The measurement is older than the bucket's begin.
    Earlier,
    /// The measurement is later than the bucket's span.
    Later,
    /// A field has another type than before.
    Schema,
}

/// The values of one field.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    values: Encoder,
    /// The number of measurements that it has values for, missing ones included.
    pub(super) rows: usize,
}

impl Column {
    /// Adds the value of a measurement. Of a name that occurs twice, the first value counts, as for `Doc::get`.
    pub(super) fn push(&mut self, row: usize, value: Value<'_>, leaves: &mut usize) {
        if row < self.rows {
            return;
        }
        self.pad(row, leaves);
        self.values.push_within(value, leaves);
        self.rows = row + 1;
    }

    /// Makes it as long as `rows` measurements: the last of them have no such field.
    fn pad(&mut self, rows: usize, leaves: &mut usize) {
        (self.rows..rows).for_each(|_| self.values.push_within(Value::Missing, leaves));
        self.rows = self.rows.max(rows);
    }
}

/// A bucket in memory. Measurements in the order of time become values of columns at once. Late ones are kept, and
/// merged when the bucket is written.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub(super) id: [u8; 12],
    pub(super) begin: i64,
    pub(super) meta: Option<ValueBuf>,
    /// The number of measurements in the columns, and the times of the last and of the latest one of the bucket.
    pub(super) rows: usize,
    pub(super) last: i64,
    pub(super) max: i64,
    pub(super) columns: Fields<Column>,
    /// The number of leaves that documents in the columns may still have.
    pub(super) leaves: usize,
    /// Measurements that are earlier than the last one in the columns, with their times.
    pub(super) late: Vec<(i64, DocBuf)>,
    pub(super) ranges: Ranges,
    /// The size of the measurements before compression.
    pub(super) bytes: usize,
}

/// The time of a measurement in milliseconds.
///
/// # Errors
/// 2 if the field is missing or no date.
pub fn time_of(measurement: Doc<'_>, options: &Options) -> Result<i64> {
    match measurement.get(&options.time_field) {
        Value::DateTime(time) => Ok(time),
        _ => bail!(
            Code::BAD_VALUE,
            "'{}' must be present and contain a valid BSON UTC datetime value",
            options.time_field
        ),
    }
}

impl Bucket {
    /// An empty bucket whose first measurement is at `time`. `meta` is normalized. The id's time is that of the begin;
    /// it wraps for times that 32 bits of seconds do not express.
    pub fn new(
        time: i64,
        meta: Option<ValueBuf>,
        options: &Options,
        new_id: &dyn Fn(u32) -> [u8; 12],
    ) -> Bucket {
        let begin = options.begin(time);
        Bucket::renewed(new_id(begin.div_euclid(1000) as u32), begin, meta)
    }

    /// An empty bucket with the id and the begin of a stored one.
    pub fn renewed(id: [u8; 12], begin: i64, meta: Option<ValueBuf>) -> Bucket {
        Bucket {
            id,
            begin,
            meta,
            rows: 0,
            last: i64::MIN,
            max: begin,
            columns: Fields::new(),
            leaves: WRITTEN_LEAVES_MAX,
            late: Vec::new(),
            ranges: Ranges::new(),
            bytes: 0,
        }
    }

    /// The `_id`.
    pub const fn id(&self) -> &[u8; 12] {
        &self.id
    }

    /// The normalized metadata.
    pub fn meta(&self) -> Option<&ValueBuf> {
        self.meta.as_ref()
    }

    /// The number of measurements.
    pub fn count(&self) -> usize {
        self.rows + self.late.len()
    }

    /// The size of the measurements before compression.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back memory that the next measurements do not need.
    pub fn shrink(&mut self) {
        self.columns.iter_mut().for_each(|column| column.values.shrink());
    }

    /// The memory that it uses, approximately.
    pub fn heap_bytes(&self) -> usize {
        let columns = self
            .columns
            .iter()
            .map(|(name, column)| FIELD_OVERHEAD + 2 * name.len() + column.values.heap_bytes());
        let late = self.late.iter().map(|(_, doc)| doc.as_bytes().len());
        let meta = self.meta.as_ref().map_or(0, ValueBuf::heap_bytes);
        size_of::<Bucket>()
            + columns.sum::<usize>()
            + late.sum::<usize>()
            + self.ranges.heap_bytes()
            + meta
    }

    /// The begin in milliseconds.
    pub const fn begin(&self) -> i64 {
        self.begin
    }

    /// Adds a measurement, whose metadata is that of the bucket. An empty bucket takes any measurement of its span.
    pub fn add(
        &mut self,
        measurement: Doc<'_>,
        time: i64,
        options: &Options,
    ) -> std::result::Result<(), Refused> {
        if time < self.begin {
            return Err(Refused::Earlier);
        }
        if !options.spans(self.begin, time) {
            return Err(Refused::Later);
        }
        let count = self.count();
        if count >= COUNT_MAX {
            return Err(Refused::Count);
        }
        let fields = || fields(measurement, options);
        let added = self.bytes + size(measurement, options);
        let bytes_max = if count < COUNT_MIN { LARGE_BYTES_MAX } else { BYTES_MAX };
        if count > 0 && (added > bytes_max || self.is_too_large(added, added - self.bytes)) {
            return Err(Refused::Size);
        }
        if count > 0 && self.has_too_many_fields(measurement) {
            return Err(Refused::Size);
        }
        if !self.ranges.accept(fields()) {
            return Err(Refused::Schema);
        }
        self.ranges.add(fields());
        self.store(measurement, time, options);
        Ok(())
    }

    /// True if there could be more fields than readers accept.
    fn has_too_many_fields(&self, measurement: Doc<'_>) -> bool {
        let known = self.ranges.len();
        // A field takes three bytes at least, so few bytes need not be counted.
        known + measurement.len() / 3 > FIELDS_MAX
            && known + measurement.iter().count() > FIELDS_MAX
    }

    /// True if the document could become too large with one more measurement, so that there are `added` bytes of them:
    /// its ranges have a copy of the least and of the greatest value of each field.
    fn is_too_large(&self, added: usize, size: usize) -> bool {
        let meta = self.meta.as_ref().map_or(0, ValueBuf::heap_bytes);
        // All measurements together may have as much in the ranges twice.
        3 * added + meta > DOCUMENT_BYTES_MAX
            && added + self.ranges.bytes() + 2 * size + meta > DOCUMENT_BYTES_MAX
    }

    pub(super) fn store(&mut self, measurement: Doc<'_>, time: i64, options: &Options) {
        self.bytes += size(measurement, options);
        self.max = if self.count() == 0 { time } else { self.max.max(time) };
        match self.rows > 0 && time < self.last {
            true => self.late.push((time, measurement.to_buf())),
            false => self.append(measurement, time, options),
        }
    }

    fn append(&mut self, measurement: Doc<'_>, time: i64, options: &Options) {
        for (at, field) in fields(measurement, options).enumerate() {
            let column = self.columns.entry(field.name(), at, Column::default);
            column.push(self.rows, field.value(), &mut self.leaves);
        }
        self.rows += 1;
        self.last = time;
    }

    /// The document, version 2.
    ///
    /// # Errors
    /// None, unless the bucket cannot read what it has written.
    pub fn to_doc(&mut self, options: &Options) -> Result<DocBuf> {
        if !self.late.is_empty() {
            self.merge(options)?;
        }
        // Other readers expect a value, or a missing one, of each measurement in each column.
        let rows = self.rows;
        self.columns.iter_mut().for_each(|column| column.pad(rows, &mut self.leaves));
        let time = &*options.time_field;
        let columns = self.columns.iter().map(|(name, column)| {
            // The name is also in both ranges.
            column.values.bytes() + COLUMN_OVERHEAD + 3 * name.len()
        });
        let bytes = columns.sum::<usize>() + BUCKET_OVERHEAD;
        Ok(DocBuf::build_sized(bytes, |out| {
            out.put("_id", &self.id);
            out.doc("control", |out| {
                out.put("version", 2);
                out.doc("min", |out| self.ranges.write(End::Min, time, self.begin, out));
                out.doc("max", |out| self.ranges.write(End::Max, time, self.max, out));
                out.put("count", self.rows as i32);
            });
            if let Some(meta) = &self.meta {
                out.put("meta", meta.value());
            }
            out.doc("data", |out| self.write_columns(out));
        }))
    }

    fn write_columns(&self, out: &mut DocWriter<'_>) {
        let longest = self.columns.iter().map(|(_, column)| column.values.bytes()).max();
        let mut bytes = Vec::with_capacity(longest.unwrap_or(0));
        for (name, column) in self.columns.iter() {
            bytes.clear();
            column.values.append_to(&mut bytes);
            out.put(name, Value::Binary(Binary { subtype: column::SUBTYPE, bytes: &bytes }));
        }
    }

    /// Puts late measurements into the columns, which are made again for that.
    fn merge(&mut self, options: &Options) -> Result<()> {
        let mut all = Vec::with_capacity(self.count());
        let shape = Shape { meta_field: None, ..Shape::of(options) };
        let written = DocBuf::build(|out| {
            out.doc("control", |out| out.put("version", 2));
            out.doc("data", |out| self.write_columns(out));
        });
        let mut unpacker = Unpacker::new(written.as_doc(), &shape)?;
        let mut measurement = Vec::new();
        while unpacker.append(&mut measurement)? {
            let found = Doc::trusted(&measurement);
            all.push((time_of(found, options)?, found.to_buf()));
            measurement.clear();
        }
        all.append(&mut self.late);
        all.sort_by_key(|(time, _)| *time);
        let mut columns = Fields::new();
        for (at, (name, _)) in self.columns.iter().enumerate() {
            columns.entry(name, at, Column::default);
        }
        (self.columns, self.rows, self.leaves) = (columns, 0, WRITTEN_LEAVES_MAX);
        for (time, measurement) in &all {
            self.append(measurement.as_doc(), *time, options);
        }
        Ok(())
    }
}

/// The fields of a measurement that become columns.
fn fields<'a>(
    measurement: Doc<'a>,
    options: &Options,
) -> impl Iterator<Item = nagi_bson::Element<'a>> {
    let meta = options.meta_field.as_deref();
    measurement.iter().filter(move |field| Some(field.name()) != meta)
}

fn size(measurement: Doc<'_>, options: &Options) -> usize {
    let meta = options.meta_field.as_deref().and_then(|meta| measurement.element(meta));
    let meta = meta.map_or(0, |meta| meta.value_bytes().len());
    measurement.len().saturating_sub(meta) + measurement.iter().count() * VALUE_OVERHEAD
}
