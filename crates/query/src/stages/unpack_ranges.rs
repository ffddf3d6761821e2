//! The smallest and largest values of a bucket as two documents, without unpacking it.
//!
//!   {$group: {_id: "$m", low: {$min: "$a"}, high: {$max: "$a"}}}
//!
//!   bucket {control: {min: {a: 1}, max: {a: 9}}, meta: 5, data: ..}      {m: 5, a: 1}, {m: 5, a: 9}
//!
//! The ranges do not say it if values are null, objects or strings: `$min` passes over null, the range of objects is
//! made of the ranges of their fields, and the order of strings depends on a collation. Such buckets are unpacked.

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::Result;
use nagi_timeseries::bucket::{Shape, Unpacker};

/// A field of measurements of which only the smallest or the largest value matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extreme {
    pub(crate) path: String,
    pub(crate) largest: bool,
}

/// The fields, if ranges of buckets of this shape have their extremes; `same` are paths of which each value matters.
pub(super) fn by_ranges(
    shape: &Shape,
    same: impl IntoIterator<Item = String>,
    extremes: Vec<Extreme>,
) -> Option<Vec<Extreme>> {
    let is_meta = |path: &str| path.split('.').next() == shape.meta_field.as_deref();
    if !same.into_iter().all(|path| is_meta(&path)) {
        return None;
    }
    let fields: Vec<Extreme> =
        extremes.into_iter().filter(|extreme| !is_meta(&extreme.path)).collect();
    // The smallest time of a bucket is rounded down.
    let has = |field: &Extreme| {
        !field.path.contains('.') && (field.largest || field.path != *shape.time_field)
    };
    fields.iter().all(has).then_some(fields)
}

/// Appends documents that have the extremes of the bucket's measurements. False, and nothing appended, if its ranges do
/// not say them.
///
/// # Errors
/// If the bucket or its times are not valid.
pub(super) fn append(
    bucket: Doc<'_>,
    shape: &Shape,
    fields: &[Extreme],
    out: &mut Vec<u8>,
) -> Result<bool> {
    let (Value::Doc(control), Value::Doc(data)) = (bucket.get("control"), bucket.get("data"))
    else {
        return Ok(false);
    };
    let end = |largest: bool| control.get(if largest { "max" } else { "min" });
    let (Value::Doc(min), Value::Doc(max)) = (end(false), end(true)) else { return Ok(false) };
    let known = |field: &Extreme| {
        let (name, present) = (&*field.path, !data.get(&field.path).is_missing());
        present == is_plain(min.get(name)) && present == is_plain(max.get(name))
    };
    let times = Shape { only: Some(Box::new([])), ..shape.clone() };
    if !fields.iter().all(known) || !Unpacker::new(bucket, &times)?.skip()? {
        return Ok(false);
    }
    for (largest, values) in [(false, min), (true, max)] {
        let mut chosen = fields.iter().filter(|field| field.largest == largest).peekable();
        // A group without accumulators needs one document.
        if chosen.peek().is_none() && (largest || !fields.is_empty()) {
            continue;
        }
        let mut writer = DocWriter::new(out);
        if let Some(meta) = &shape.meta_field {
            writer.put(meta, bucket.get("meta"));
        }
        let mut seen: Vec<&str> = Vec::new();
        for field in chosen {
            if !seen.contains(&&*field.path) {
                writer.put(&field.path, values.get(&field.path));
                seen.push(&field.path);
            }
        }
        writer.finish();
    }
    Ok(true)
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
