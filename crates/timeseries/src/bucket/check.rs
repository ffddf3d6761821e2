//! Whether a stored bucket tells the truth about its measurements, for `validate`.
//!
//! Queries trust `control`: its ranges exclude buckets, its count is that of `$count`, its times bound the search. Any
//! server, restore or client with the rights may have written the bucket.

use nagi_bson::{Doc, DocBuf, Element, Value, compare, number};
use nagi_error::Result;

use super::{
    Shape, Unpacker,
    ranges::{End, Ranges},
};
use crate::options::Options;

/// Why a bucket is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub text: String,
    /// Queries fail, or may return something else than its measurements. Otherwise they are only slower.
    pub is_error: bool,
}

fn error(text: impl Into<String>) -> Fault {
    Fault { text: text.into(), is_error: true }
}

/// Reads the whole bucket and compares it with its `control`. `collated`: the ranges of strings may be in another
/// order than that of their bytes, and are not compared. `pass` is called for each measurement. The memory is that of
/// one measurement and of the ranges.
///
/// # Errors
/// Those of `pass`.
pub fn check(
    bucket: Doc<'_>,
    options: &Options,
    collated: bool,
    pass: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Fault>> {
    let control = bucket.get("control").as_doc().unwrap_or(Doc::EMPTY);
    let (Value::Doc(min), Value::Doc(max)) = (control.get("min"), control.get("max")) else {
        return Ok(Some(error("control.min and control.max must be objects")));
    };
    let (Value::DateTime(begin), Value::DateTime(last)) =
        (min.get(&options.time_field), max.get(&options.time_field))
    else {
        return Ok(Some(error("control.min and control.max must have dates of the time field")));
    };
    let read = match read(bucket, options, begin, pass)? {
        Ok(read) => read,
        Err(fault) => return Ok(Some(fault)),
    };
    if let Some(fault) = compare_ranges(&read, (min, max), options, collated) {
        return Ok(Some(fault));
    }
    let seconds = match bucket.get("_id") {
        // The time of an id has 32 bits.
        Value::ObjectId(id) => u32::from_be_bytes([id[0], id[1], id[2], id[3]]),
        other => {
            let kind = other.kind().name();
            return Ok(Some(error(format!("_id has the type '{kind}', expected objectId"))));
        }
    };
    let text = match () {
        () if seconds != begin.div_euclid(1000) as u32 => {
            "The time of _id is not the control.min of the time field"
        }
        () if !options.spans(begin, last) => {
            "The control.max of the time field is beyond the span of buckets"
        }
        () => return Ok(None),
    };
    Ok(Some(Fault { text: text.to_owned(), is_error: false }))
}

/// What the measurements of a bucket are.
struct Read {
    ranges: Ranges,
    /// All values of a path have one class: only then the ranges are those that servers make.
    uniform: bool,
    first: i64,
    last: i64,
}

/// Reads the measurements. The inner error is what is wrong with them.
fn read(
    bucket: Doc<'_>,
    options: &Options,
    begin: i64,
    pass: &mut dyn FnMut() -> Result<()>,
) -> Result<std::result::Result<Read, Fault>> {
    let control = bucket.get("control").as_doc().unwrap_or(Doc::EMPTY);
    let version = number::truncate_to_i64(control.get("version"));
    let declared = match control.get("count") {
        count if count.is_number() => number::as_i64_exact(count),
        _ => None,
    };
    let mut unpacker = match Unpacker::new(bucket, &Shape::of(options)) {
        Ok(unpacker) => unpacker,
        Err(broken) => return Ok(Err(error(broken.message()))),
    };
    let mut read = Read { ranges: Ranges::new(), uniform: true, first: i64::MAX, last: i64::MIN };
    let (mut count, mut values, mut measurement) = (0_i64, 0_usize, Vec::new());
    let meta = options.meta_field.as_deref();
    loop {
        pass()?;
        measurement.clear();
        match unpacker.append(&mut measurement) {
            Ok(true) => {}
            Ok(false) => break,
            Err(broken) => return Ok(Err(error(broken.message()))),
        }
        count += 1;
        if version != Some(1) && declared.is_some_and(|declared| count > declared) {
            return Ok(Err(error("The bucket has more measurements than control.count")));
        }
        let doc = Doc::trusted(&measurement);
        let Value::DateTime(time) = doc.get(&options.time_field) else {
            return Ok(Err(error("The time of a measurement is not a date")));
        };
        if version == Some(2) && time < read.last {
            return Ok(Err(error("The measurements of a bucket of version 2 are not in order")));
        }
        if time < begin {
            return Ok(Err(error("A measurement is before the begin of its bucket")));
        }
        (read.first, read.last) = (read.first.min(time), read.last.max(time));
        let fields = || doc.iter().filter(|field| Some(field.name()) != meta);
        values += fields().count();
        read.uniform = read.uniform && read.ranges.accept(fields());
        if read.uniform {
            read.ranges.add(fields());
        }
    }
    let missing = match version {
        Some(1) => stored_values(bucket) != values,
        _ => match unpacker.is_exhausted() {
            Ok(exhausted) => !exhausted,
            Err(broken) => return Ok(Err(error(broken.message()))),
        },
    };
    if missing {
        return Ok(Err(error("A field has values that belong to no measurement")));
    }
    if version != Some(1) && declared != Some(count) {
        return Ok(Err(error(format!(
            "control.count is {}, the bucket has {count} measurements",
            control.get("count")
        ))));
    }
    Ok(Ok(read))
}

/// The number of values of a bucket of version 1.
fn stored_values(bucket: Doc<'_>) -> usize {
    let data = bucket.get("data").as_doc().unwrap_or(Doc::EMPTY);
    data.iter().filter_map(|field| field.value().as_doc()).map(|values| values.iter().count()).sum()
}

fn compare_ranges(
    read: &Read,
    (min, max): (Doc<'_>, Doc<'_>),
    options: &Options,
    collated: bool,
) -> Option<Fault> {
    if max.get(&options.time_field) != Value::DateTime(read.last) {
        return Some(error("control.max of the time field is not the last time"));
    }
    if !read.uniform {
        return None;
    }
    // The begin of a bucket is before its first time.
    let begin = match min.get(&options.time_field) {
        Value::DateTime(begin) => begin,
        _ => read.first,
    };
    for (end, name, stored, time) in
        [(End::Min, "min", min, begin), (End::Max, "max", max, read.last)]
    {
        let own = DocBuf::build(|out| read.ranges.write(end, &options.time_field, time, out));
        if !same_fields(own.as_doc().iter(), stored.iter(), collated) {
            return Some(error(format!("control.{name} is not that of the measurements")));
        }
    }
    None
}

/// True if both have the same names, and equal values of them. The order of names makes no difference. The depth is
/// that of documents.
fn same_fields<'a, 'b>(
    a: impl Iterator<Item = Element<'a>>,
    b: impl Iterator<Item = Element<'b>>,
    collated: bool,
) -> bool {
    let (mut a, mut b): (Vec<_>, Vec<_>) = (a.collect(), b.collect());
    a.sort_by(|x, y| x.name().cmp(y.name()));
    b.sort_by(|x, y| x.name().cmp(y.name()));
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(a, b)| a.name() == b.name() && same_value(a.value(), b.value(), collated))
}

fn same_value(a: Value<'_>, b: Value<'_>, collated: bool) -> bool {
    match (a, b) {
        (Value::Doc(a), Value::Doc(b)) => same_fields(a.iter(), b.iter(), collated),
        (Value::Array(a), Value::Array(b)) => same_fields(a.elements(), b.elements(), collated),
        (Value::String(_), Value::String(_)) if collated => true,
        (a, b) => compare::values(a, b).is_eq(),
    }
}
