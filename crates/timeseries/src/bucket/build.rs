//! Collecting the measurements of one bucket.

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, KeptValue, Value, ValueBuf};
use nagi_error::{Code, Result, bail};

use super::{
    BYTES_MAX, COUNT_MAX, COUNT_MIN, LARGE_BYTES_MAX, Shape, Unpacker,
    fields::Fields,
    ranges::{End, Ranges},
};
use crate::{column, options::Options};

/// The bytes of a stored value beside itself: type, position, terminator. Its name counts in full, as in version 1.
const VALUE_OVERHEAD: usize = 6;

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

/// The values of one field: the positions of the measurements that have it, ascending.
type Column = Vec<(u32, KeptValue)>;

/// A bucket in memory.
#[derive(Clone, Debug)]
pub struct Bucket {
    id: [u8; 12],
    begin: i64,
    meta: Option<ValueBuf>,
    times: Vec<i64>,
    columns: Fields<Column>,
    ranges: Ranges,
    /// The size of the measurements before compression.
    bytes: usize,
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
        let (times, columns, ranges, bytes) = (Vec::new(), Fields::new(), Ranges::new(), 0);
        Bucket { id, begin, meta, times, columns, ranges, bytes }
    }

    /// Reads a stored bucket, so that it can take more measurements. None if it must not: it is closed, full, or its
    /// fields have more than one type.
    ///
    /// # Errors
    /// If the document is no bucket.
    pub fn open(doc: Doc<'_>, options: &Options) -> Result<Option<Bucket>> {
        let control = doc.get("control").as_doc().unwrap_or(Doc::EMPTY);
        let (Value::Doc(min), Value::Doc(max), Value::ObjectId(id)) =
            (control.get("min"), control.get("max"), doc.get("_id"))
        else {
            return Ok(None);
        };
        let Value::DateTime(begin) = min.get(&options.time_field) else { return Ok(None) };
        let Some(ranges) = Ranges::between(min, max) else { return Ok(None) };
        if control.get("closed").is_truthy() {
            return Ok(None);
        }
        let meta = Some(doc.get("meta")).filter(|meta| !meta.is_missing()).map(ValueBuf::new);
        let mut unpacker = Unpacker::new(doc, &Shape::of(options))?;
        let mut columns = Fields::new();
        for (at, field) in doc.get("data").as_doc().unwrap_or(Doc::EMPTY).iter().enumerate() {
            // Values outside of all ranges would not be found.
            if !ranges.has(field.name(), at) {
                return Ok(None);
            }
            columns.entry(field.name(), at, Vec::new);
        }
        let (times, bytes) = (Vec::new(), 0);
        let mut bucket = Bucket { id: *id, begin, meta, times, columns, ranges, bytes };
        let mut measurement = Vec::new();
        while unpacker.append(&mut measurement)? {
            let found = Doc::trusted(&measurement);
            let Ok(time) = time_of(found, options) else { return Ok(None) };
            if bucket.times.len() >= COUNT_MAX || bucket.bytes > LARGE_BYTES_MAX {
                return Ok(None);
            }
            bucket.store(found, time, options);
            measurement.clear();
        }
        Ok((!bucket.times.is_empty()).then_some(bucket))
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
        self.times.len()
    }

    /// The size of the measurements before compression.
    pub const fn bytes(&self) -> usize {
        self.bytes
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
        let count = self.times.len();
        if count >= COUNT_MAX {
            return Err(Refused::Count);
        }
        let fields = || fields(measurement, options).enumerate();
        let added = self.bytes + size(measurement, options);
        let bytes_max = if count < COUNT_MIN { LARGE_BYTES_MAX } else { BYTES_MAX };
        if count > 0 && added > bytes_max {
            return Err(Refused::Size);
        }
        if !fields().all(|(at, field)| self.ranges.accepts(field.name(), at, field.value())) {
            return Err(Refused::Schema);
        }
        for (at, field) in fields() {
            self.ranges.add(field.name(), at, field.value());
        }
        self.store(measurement, time, options);
        Ok(())
    }

    fn store(&mut self, measurement: Doc<'_>, time: i64, options: &Options) {
        let row = self.times.len() as u32;
        for (at, field) in fields(measurement, options).enumerate() {
            let column = self.columns.entry(field.name(), at, Vec::new);
            // Of a name that occurs twice, the first value counts, as for `Doc::get`.
            if column.last().is_none_or(|last| last.0 != row) {
                column.push((row, KeptValue::new(field.value())));
            }
        }
        self.bytes += size(measurement, options);
        self.times.push(time);
    }

    /// The document, version 2.
    pub fn to_doc(&self, options: &Options) -> DocBuf {
        let order = self.order();
        let last = self.times.iter().max().copied().unwrap_or(self.begin);
        let time = &*options.time_field;
        DocBuf::build(|out| {
            out.put("_id", &self.id);
            out.doc("control", |out| {
                out.put("version", 2);
                out.doc("min", |out| self.ranges.write(End::Min, time, self.begin, out));
                out.doc("max", |out| self.ranges.write(End::Max, time, last, out));
                out.put("count", self.times.len() as i32);
            });
            if let Some(meta) = &self.meta {
                out.put("meta", meta.value());
            }
            out.doc("data", |out| self.write_columns(order.as_deref(), out));
        })
    }

    /// The measurements by time; none if that is the order in which they were added.
    fn order(&self) -> Option<Vec<u32>> {
        if self.times.is_sorted() {
            return None;
        }
        let mut order: Vec<u32> = (0..self.times.len() as u32).collect();
        order.sort_by_key(|row| self.times[*row as usize]);
        Some(order)
    }

    fn write_columns(&self, order: Option<&[u32]>, out: &mut DocWriter<'_>) {
        let mut rows = vec![Value::Missing; self.times.len()];
        for (name, column) in self.columns.iter() {
            rows.fill(Value::Missing);
            column.iter().for_each(|(row, value)| rows[*row as usize] = value.value());
            // Values that are missing at the end need not be stored.
            let bytes = match order {
                None => {
                    let end = column.last().map_or(0, |last| last.0 as usize + 1);
                    column::encode(rows[..end].iter().copied())
                }
                Some(order) => {
                    let end = order.iter().rposition(|row| !rows[*row as usize].is_missing());
                    let order = &order[..end.map_or(0, |end| end + 1)];
                    column::encode(order.iter().map(|row| rows[*row as usize]))
                }
            };
            out.put(name, Value::Binary(Binary { subtype: column::SUBTYPE, bytes: &bytes }));
        }
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
