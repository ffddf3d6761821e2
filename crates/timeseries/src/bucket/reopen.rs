//! Reading a stored bucket, so that it can take more measurements.

use nagi_bson::{Doc, Value, ValueBuf, append_payload};
use nagi_error::Result;

use super::{
    Bucket, COUNT_MAX, Columns, LARGE_BYTES_MAX, Shape, Unpacker,
    build::{Column, VALUE_OVERHEAD, time_of},
    ranges::Ranges,
};
use crate::options::Options;

/// The bytes of a document beside its fields, and of a field beside its name and its value.
const DOCUMENT_BYTES: usize = 5;
const ELEMENT_BYTES: usize = 2;

impl Bucket {
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
        let mut bucket = Bucket { ranges, ..Bucket::renewed(*id, begin, meta) };
        for (at, field) in doc.get("data").as_doc().unwrap_or(Doc::EMPTY).iter().enumerate() {
            // Values outside of all ranges would not be found.
            if !bucket.ranges.has(field.name(), at) {
                return Ok(None);
            }
            bucket.columns.entry(field.name(), at, Column::default);
        }
        let times = times_in_order(doc, options)?;
        let open = match (Columns::of(doc), times) {
            (Some(columns), Some(times)) => bucket.take_columns(columns, &times, doc, options)?,
            _ => bucket.take_measurements(doc, options)?,
        };
        Ok((open && bucket.count() > 0).then_some(bucket))
    }

    /// Takes the values column by column, which is several times as fast as by measurements. False if it is full.
    fn take_columns(
        &mut self,
        mut columns: Columns<'_>,
        times: &[i64],
        doc: Doc<'_>,
        options: &Options,
    ) -> Result<bool> {
        if times.len() > COUNT_MAX {
            return Ok(false);
        }
        let meta_name = options.meta_field.as_deref().filter(|_| self.meta.is_some());
        let meta = meta_name.map_or(0, |name| ELEMENT_BYTES + name.len() + VALUE_OVERHEAD);
        self.bytes += times.len() * (DOCUMENT_BYTES + meta);
        let mut scratch = Vec::new();
        for (at, field) in doc.get("data").as_doc().unwrap_or(Doc::EMPTY).iter().enumerate() {
            if options.meta_field.as_deref() == Some(field.name()) {
                return Ok(false);
            }
            let Some(mut values) = columns.column(field.name()) else { return Ok(false) };
            let overhead = ELEMENT_BYTES + field.name().len() + VALUE_OVERHEAD;
            let Bucket { columns: own, leaves, bytes, .. } = self;
            let column = own.entry(field.name(), at, Column::default);
            if column.rows > 0 {
                // A name occurs twice. Readers see the second column where the first one has no value.
                return Ok(false);
            }
            let mut row = 0;
            columns.each(&mut values, times.len(), &mut |value| {
                if !value.is_missing() {
                    *bytes += overhead + size_of_value(value, &mut scratch);
                }
                column.push(row, value, leaves);
                row += 1;
                Ok(())
            })?;
            if self.bytes > LARGE_BYTES_MAX {
                return Ok(false);
            }
        }
        self.rows = times.len();
        self.last = times.last().copied().unwrap_or(self.last);
        self.max = self.last.max(self.begin);
        Ok(true)
    }

    /// Takes the measurements one by one. False if it is full, or one has no date.
    fn take_measurements(&mut self, doc: Doc<'_>, options: &Options) -> Result<bool> {
        let mut unpacker = Unpacker::new(doc, &Shape::of(options))?;
        let mut measurement = Vec::new();
        while unpacker.append(&mut measurement)? {
            let found = Doc::trusted(&measurement);
            let Ok(time) = time_of(found, options) else { return Ok(false) };
            if self.count() >= COUNT_MAX || self.bytes > LARGE_BYTES_MAX {
                return Ok(false);
            }
            self.store(found, time, options);
            measurement.clear();
        }
        Ok(true)
    }
}

/// The times of a bucket with columns, one more than a bucket may have at the most; none if they are not in order.
fn times_in_order(doc: Doc<'_>, options: &Options) -> Result<Option<Vec<i64>>> {
    let Some(mut columns) = Columns::of(doc) else { return Ok(None) };
    let Some(mut column) = columns.column(&options.time_field) else { return Ok(None) };
    let (mut times, mut dates) = (Vec::new(), true);
    columns.each(&mut column, COUNT_MAX + 1, &mut |time| {
        match time {
            Value::DateTime(time) => times.push(time),
            _ => dates = false,
        }
        Ok(())
    })?;
    let in_order = dates && times.is_sorted();
    Ok(in_order.then_some(times))
}

/// The size of the value in a document.
fn size_of_value(value: Value<'_>, scratch: &mut Vec<u8>) -> usize {
    match value {
        Value::Double(_) | Value::DateTime(_) | Value::Int64(_) | Value::Timestamp(_) => 8,
        Value::Int32(_) => 4,
        Value::Bool(_) => 1,
        value => {
            scratch.clear();
            append_payload(scratch, value);
            scratch.len()
        }
    }
}
