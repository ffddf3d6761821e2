//! `$_internalUnpackBucket`: yields the measurements of the buckets of a time series collection.
//!
//! The view that a time series collection is begins with it. Conditions of later stages reach the buckets in two ways:
//!
//!   {m: 5}               is a condition on `meta`: it moves before this stage (`source_of`)
//!   {t: {$gt: d}}        stays, but only buckets with `control.max.t > d` can have such measurements (`implied`)
//!
//! The unpacked measurements of a bucket are kept in parts of bounded size, because few bytes of a bucket may stand for
//! very many measurements. For the next part the bucket is read again from its beginning; ordinary buckets fit into
//! one.

use std::sync::Arc;

use nagi_bson::number;
use nagi_lang::{
    filter::{CompareOp, Filter, Pred, TypeSet},
    path::FieldPath,
};
use nagi_timeseries::{
    Options,
    bucket::{Shape, Unpacker},
};

use super::{prelude::*, rewrite::renamed};
use crate::source::{Absorbed, splits_with_input};

pub(super) static UNPACK_BUCKET: StageSpec = StageSpec {
    name: NAME,
    shape: How::Same,
    parse,
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

const NAME: &str = "$_internalUnpackBucket";

/// The size of a part, in bytes; it has at least one measurement.
const PART_BYTES_MAX: usize = 1 << 20;

/// The most measurements of a part.
const PART_COUNT_MAX: usize = 4096;

struct UnpackBucket {
    shape: Arc<Shape>,
    span: Option<i64>,
}

struct Running {
    input: Box<dyn Source>,
    shape: Arc<Shape>,
    /// A copy of the bucket, because its output spans several calls.
    bucket: Vec<u8>,
    /// The number of its measurements that have been unpacked; none if these are all.
    unpacked: Option<usize>,
    /// Measurements, one after another, and the offset of the current one.
    part: Vec<u8>,
    at: usize,
}

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(spec) = spec else {
        bail!(
            Code::Location(5_346_500),
            "{NAME} specification must be an object, got: {}",
            spec.kind().name()
        )
    };
    let text = |name: &str, code: i32, value: Value<'_>| match value {
        Value::String(text) if !text.contains(['.', '\0']) => Ok(Box::<str>::from(text)),
        Value::String(text) => {
            bail!(Code::Location(code), "{name} must be a top-level field, got: {text}")
        }
        other => {
            bail!(
                Code::Location(code),
                "{name} field must be a string, got: {}",
                other.kind().name()
            )
        }
    };
    let (mut time_field, mut meta_field, mut span) = (None, None, None);
    for element in spec {
        let value = element.value();
        match element.name() {
            "timeField" => time_field = Some(text("timeField", 5_346_504, value)?),
            "metaField" => meta_field = Some(text("metaField", 5_346_505, value)?),
            "bucketMaxSpanSeconds" => {
                span = number::as_i64_exact(value).filter(|span| *span > 0);
                if span.is_none() {
                    bail!(
                        Code::Location(5_510_600),
                        "bucketMaxSpanSeconds field must be a positive integer, got: {value}"
                    )
                }
            }
            other => bail!(Code::Location(5_346_506), "unrecognized parameter to {NAME}: {other}"),
        }
    }
    let Some(time_field) = time_field else {
        bail!(Code::Location(5_346_508), "The {NAME} stage requires a timeField parameter")
    };
    Ok(Box::new(UnpackBucket { shape: Arc::new(Shape { time_field, meta_field }), span }))
}

impl Stage for UnpackBucket {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running::new(input, self.shape.clone()))
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc(NAME, |out| {
            out.put("timeField", &*self.shape.time_field);
            if let Some(meta) = &self.shape.meta_field {
                out.put("metaField", &**meta);
            }
            if let Some(span) = self.span {
                out.put("bucketMaxSpanSeconds", span as i32);
            }
        });
    }

    fn source_of(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.shape.meta_field.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
    }

    fn implied(&self, filter: &Filter) -> Option<Filter> {
        match filter {
            Filter::And(parts) => {
                let parts: Vec<_> = parts.iter().filter_map(|part| self.implied(part)).collect();
                (!parts.is_empty()).then_some(Filter::And(parts))
            }
            Filter::Or(parts) => {
                parts.iter().map(|part| self.implied(part)).collect::<Option<_>>().map(Filter::Or)
            }
            Filter::Field { path, pred: Pred::Compare { op, value, collation: None } } => {
                let name = path.as_str();
                let meta = self.shape.meta_field.as_deref();
                match value.value() {
                    _ if name.contains('.') || Some(name) == meta => None,
                    Value::DateTime(_) if name == &*self.shape.time_field => {
                        Some(of_time(name, *op, value.value()))
                    }
                    other if is_plain(other) => Some(of_field(name, *op, other)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The condition that a bucket fulfills if it has a measurement that matches `filter`.
pub(crate) fn on_buckets(options: &Options, filter: &Filter) -> Filter {
    let stage = UnpackBucket { shape: Arc::new(Shape::of(options)), span: None };
    let parts = match filter {
        Filter::And(parts) => &parts[..],
        other => slice::from_ref(other),
    };
    let on_bucket = |part| on_meta(options, part).or_else(|| stage.implied(part));
    let parts: Vec<_> = parts.iter().filter_map(on_bucket).collect();
    if parts.is_empty() { Filter::AlwaysTrue } else { Filter::And(parts).normalize() }
}

/// The same condition on buckets, if it reads only metadata.
pub(crate) fn on_meta(options: &Options, filter: &Filter) -> Option<Filter> {
    renamed(filter, &mut |path, _| options.meta_path(path))
}

/// A condition on one end of the range that a bucket has for a field.
fn end(end: &str, field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let pred = Pred::Compare { op, value: value.into(), collation: None };
    Filter::Field { path: FieldPath::new(&format!("control.{end}.{field}")), pred }
}

/// The buckets that may have a measurement with such a time. All times are dates, and so are both ends.
fn of_time(field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    match op {
        CompareOp::Gt | CompareOp::Gte => end("max", field, op, value),
        CompareOp::Lt | CompareOp::Lte => end("min", field, op, value),
        CompareOp::Eq => Filter::And(vec![
            end("min", field, CompareOp::Lte, value),
            end("max", field, CompareOp::Gte, value),
        ]),
    }
}

/// Values whose order among values of their type is that of the ranges.
fn is_plain(value: Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::DateTime(_) | Value::ObjectId(_) | Value::Bool(_) => true,
        value => value.is_number() && !number::is_nan(value),
    }
}

/// The buckets that may have a measurement with such a value: all but those with an end of the same type on the wrong
/// side of it. Buckets of other servers may have several types in a field; then an end has possibly another type. The
/// ends of arrays are those of each element, which say nothing about a single one.
fn of_field(field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let excluded = |which: &str, op| {
        let path = FieldPath::new(&format!("control.{which}.{field}"));
        let array = Filter::Field { path, pred: Pred::Type(TypeSet::of(nagi_bson::Type::Array)) };
        Filter::And(vec![end(which, field, op, value), Filter::Not(Box::new(array))])
    };
    Filter::Nor(match op {
        CompareOp::Gt => vec![excluded("max", CompareOp::Lte)],
        CompareOp::Gte => vec![excluded("max", CompareOp::Lt)],
        CompareOp::Lt => vec![excluded("min", CompareOp::Gte)],
        CompareOp::Lte => vec![excluded("min", CompareOp::Gt)],
        CompareOp::Eq => vec![excluded("min", CompareOp::Gt), excluded("max", CompareOp::Lt)],
    })
}

impl Running {
    fn new(input: Box<dyn Source>, shape: Arc<Shape>) -> Running {
        Running { input, shape, bucket: Vec::new(), unpacked: None, part: Vec::new(), at: 0 }
    }

    /// The same over another input; only before the first document.
    fn over(&self, input: Box<dyn Source>) -> Running {
        Running::new(input, self.shape.clone())
    }

    /// Unpacks the next part of the bucket.
    fn fill(&mut self, before: usize, cx: &mut Cx<'_>) -> Result<()> {
        self.part.clear();
        self.at = 0;
        self.unpacked = None;
        let mut unpacker = Unpacker::new(Doc::trusted(&self.bucket), &self.shape)?;
        for _ in 0..before {
            cx.tick()?;
            unpacker.skip()?;
        }
        let mut count = 0;
        while unpacker.append(&mut self.part)? {
            count += 1;
            cx.tick()?;
            if self.part.len() >= PART_BYTES_MAX || count == PART_COUNT_MAX {
                self.unpacked = Some(before + count);
                break;
            }
        }
        Ok(())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.part.is_empty() {
            self.at += self.doc().len();
        }
        while self.at >= self.part.len() {
            cx.tick()?;
            let before = match self.unpacked {
                Some(before) => before,
                None => {
                    if !self.input.advance(cx)? {
                        self.part.clear();
                        self.at = 0;
                        return Ok(false);
                    }
                    self.bucket.clear();
                    self.bucket.extend_from_slice(self.input.doc().as_bytes());
                    0
                }
            };
            self.fill(before, cx)?;
        }
        Ok(true)
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    splits_with_input!();

    fn doc(&self) -> Doc<'_> {
        let rest = self.part.get(self.at..).unwrap_or(&[]);
        let len = rest.first_chunk().map_or(0, |len| i32::from_le_bytes(*len) as usize);
        Doc::trusted(rest.get(..len).unwrap_or(&[]))
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
