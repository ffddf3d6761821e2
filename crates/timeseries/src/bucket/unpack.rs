//! The measurements of a bucket of any version.

use std::ops::RangeInclusive;

use nagi_bson::{Doc, DocWriter, Elements, Value};
use nagi_error::{Code, Result, bail};

use crate::{
    column::{self, Decoder, LEAVES_MAX},
    options::Options,
};

/// What the unpacker must know of a collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub time_field: Box<str>,
    pub meta_field: Option<Box<str>>,
    /// The fields that measurements get, in addition to the time; none: all.
    pub only: Option<Box<[Box<str>]>>,
}

impl Shape {
    pub fn of(options: &Options) -> Shape {
        let (time_field, meta_field) = (options.time_field.clone(), options.meta_field.clone());
        Shape { time_field, meta_field, only: None }
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| &**name == field))
    }
}

/// The values of one field.
enum Values<'a> {
    /// Version 1: positions and values, ascending.
    Positions(Elements<'a>, Option<(&'a str, Value<'a>)>),
    /// Versions 2 and 3.
    Column(Box<Decoder<'a>>),
}

/// Iterates over the measurements of a bucket. They are made one by one, so a bucket that stands for very many costs
/// no memory. The fields of a measurement: its time, its metadata, the others in the order of the bucket.
pub struct Unpacker<'a> {
    time_field: Box<str>,
    meta: Option<(Box<str>, Value<'a>)>,
    /// None if the bucket has no measurement.
    times: Option<Values<'a>>,
    fields: Vec<(&'a str, Values<'a>)>,
    /// The number of leaves that interleaved documents of the columns may still have.
    budget: usize,
    /// The number of measurements by which the columns of `fields` are behind that of the times.
    lag: usize,
}

/// The most measurements that are decoded in one call: more than buckets of servers have.
const LAG_MAX: usize = 4096;

/// What became of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unpacked {
    Appended,
    /// Its time is not wanted.
    Passed,
    /// There is none.
    End,
}

impl<'a> Unpacker<'a> {
    /// # Errors
    /// 5346510 if the document is no bucket.
    pub fn new(bucket: Doc<'a>, shape: &Shape) -> Result<Unpacker<'a>> {
        let control = bucket.get("control").as_doc().unwrap_or(Doc::EMPTY);
        let version = nagi_bson::number::truncate_to_i64(control.get("version"));
        let columnar = match version {
            Some(1) => false,
            Some(2 | 3) => true,
            _ => bail!(Code::BAD_VALUE, "Invalid bucket version: {}", control.get("version")),
        };
        let Value::Doc(data) = bucket.get("data") else {
            bail!(
                Code::Location(5_346_510),
                "An object with bucket data must be present in a bucket"
            )
        };
        let (mut times, mut fields) = (None, Vec::new());
        for field in data {
            let values = Values::new(field.value(), columnar)?;
            match field.name() == &*shape.time_field {
                true => times = times.or(Some(values)),
                // Columns that are not needed are not decoded.
                false if !shape.has(field.name()) => {}
                false => fields.push((field.name(), values)),
            }
            if fields.len() > LEAVES_MAX {
                bail!(Code::BAD_VALUE, "A bucket has more than {LEAVES_MAX} fields")
            }
        }
        let meta_field = shape.meta_field.clone().filter(|meta| shape.has(meta));
        let meta = meta_field.map(|name| (name, bucket.get("meta")));
        let budget = LEAVES_MAX - fields.len();
        let time_field = shape.time_field.clone();
        Ok(Unpacker { time_field, meta, times, fields, budget, lag: 0 })
    }

    /// Appends the next measurement to `out`. False at the end.
    ///
    /// # Errors
    /// If a column is not valid.
    pub fn append(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.append_between(i64::MIN..=i64::MAX, out).map(|done| done != Unpacked::End)
    }

    /// Appends the next measurement to `out`, unless its time is a date outside of the range. Behind the last one that
    /// is appended, only the times are decoded.
    ///
    /// # Errors
    /// If a column is not valid.
    pub fn append_between(
        &mut self,
        wanted: RangeInclusive<i64>,
        out: &mut Vec<u8>,
    ) -> Result<Unpacked> {
        let (position, time) = match &mut self.times {
            None => return Ok(Unpacked::End),
            Some(Values::Column(decoder)) => match decoder.advance_within(&mut self.budget)? {
                None => return Ok(Unpacked::End),
                Some(time) => ("", time),
            },
            Some(times) => match times.next_position() {
                None => return Ok(Unpacked::End),
                Some(next) => next,
            },
        };
        if matches!(time, Value::DateTime(time) if !wanted.contains(&time)) {
            self.pass(position)?;
            return Ok(Unpacked::Passed);
        }
        catch_up(&mut self.fields, &mut self.lag, &mut self.budget)?;
        let mut writer = DocWriter::new(out);
        writer.put(&self.time_field, time);
        if let Some((name, meta)) = &self.meta {
            writer.put(name, *meta);
        }
        for (name, values) in &mut self.fields {
            match values {
                Values::Column(decoder) => {
                    let value = decoder.advance_within(&mut self.budget)?;
                    writer.put(name, value.unwrap_or(Value::Missing));
                }
                Values::Positions(..) => writer.put(name, values.at(position)),
            }
        }
        writer.finish();
        Ok(Unpacked::Appended)
    }
}

impl Unpacker<'_> {
    /// True if no column has a value after those of the measurements, all of which have been read.
    ///
    /// # Errors
    /// If a column is not valid.
    pub(super) fn is_exhausted(&mut self) -> Result<bool> {
        debug_assert_eq!(self.lag, 0, "after measurements that were left out");
        for (_, values) in &mut self.fields {
            if let Values::Column(decoder) = values
                && decoder.advance_within(&mut self.budget)?.is_some()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes over the next measurement. False at the end.
    ///
    /// # Errors
    /// If a column is not valid.
    pub fn skip(&mut self) -> Result<bool> {
        let position = match &mut self.times {
            None => None,
            Some(Values::Column(decoder)) => decoder.advance_within(&mut self.budget)?.map(|_| ""),
            Some(times) => times.next_position().map(|(position, _)| position),
        };
        if let Some(position) = position {
            self.pass(position)?;
        }
        Ok(position.is_some())
    }

    /// Leaves out the values of a measurement.
    fn pass(&mut self, position: &str) -> Result<()> {
        for (_, values) in &mut self.fields {
            if let Values::Positions(..) = values {
                values.at(position);
            }
        }
        self.lag += 1;
        match self.lag == LAG_MAX {
            true => catch_up(&mut self.fields, &mut self.lag, &mut self.budget),
            false => Ok(()),
        }
    }
}

/// Moves the columns to the measurement of the last time.
fn catch_up(fields: &mut [(&str, Values<'_>)], lag: &mut usize, budget: &mut usize) -> Result<()> {
    let lag = std::mem::take(lag);
    for (_, values) in fields.iter_mut().filter(|_| lag > 0) {
        if let Values::Column(decoder) = values {
            for _ in 0..lag {
                decoder.advance_within(budget)?;
            }
        }
    }
    Ok(())
}

impl<'a> Values<'a> {
    fn new(value: Value<'a>, columnar: bool) -> Result<Values<'a>> {
        match value {
            Value::Doc(values) if !columnar => {
                let mut elements = values.iter();
                let first = elements.next().map(|e| (e.name(), e.value()));
                Ok(Values::Positions(elements, first))
            }
            Value::Binary(binary) if columnar && binary.subtype == column::SUBTYPE => {
                Ok(Values::Column(Box::new(Decoder::new(binary.bytes))))
            }
            other => bail!(
                Code::BAD_VALUE,
                "A field of a bucket has the wrong type '{}'",
                other.kind().name()
            ),
        }
    }

    /// Moves to the next position of version 1.
    fn next_position(&mut self) -> Option<(&'a str, Value<'a>)> {
        let Values::Positions(elements, next) = self else { return None };
        let current = next.take();
        *next = elements.next().map(|e| (e.name(), e.value()));
        current
    }

    /// The value at a position of version 1, if it is the next one.
    fn at(&mut self, position: &str) -> Value<'a> {
        match self {
            Values::Positions(_, Some((next, _))) if *next == position => {
                self.next_position().map_or(Value::Missing, |(_, value)| value)
            }
            _ => Value::Missing,
        }
    }
}
