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
use nagi_lang::{filter::Filter, sort::SortSpec};
use nagi_timeseries::bucket::{Shape, Unpacker};

use super::{
    Sort,
    prelude::*,
    unpack_columns::ByColumns,
    unpack_ends::{Ends, UnpackEnds},
    unpack_top::{self, Ordered, Top, UnpackTop},
};
use crate::{
    conditions::buckets::implied,
    source::{Absorbed, splits_with_input},
};

pub(super) static UNPACK_BUCKET: StageSpec = StageSpec {
    name: NAME,
    shape: How::Same,
    parse,
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

pub(super) const NAME: &str = "$_internalUnpackBucket";

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
    Ok(Box::new(UnpackBucket {
        shape: Arc::new(Shape { time_field, meta_field, only: None }),
        span,
    }))
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
            if let Some(only) = &self.shape.only {
                out.array("include", |out| only.iter().for_each(|name| out.push(&**name)));
            }
        });
    }

    fn source_of(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.shape.meta_field.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
    }

    fn only(&self, paths: &[String]) -> Option<Arc<dyn Stage>> {
        let mut names: Vec<Box<str>> =
            paths.iter().map(|path| path.split('.').next().unwrap_or(path).into()).collect();
        names.sort();
        names.dedup();
        let shape = Shape { only: Some(names.into()), ..(*self.shape).clone() };
        Some(Arc::new(UnpackBucket { shape: Arc::new(shape), span: self.span }))
    }

    fn unpacks(&self) -> Option<&Arc<Shape>> {
        Some(&self.shape)
    }

    fn only_ends(
        &self,
        by: ByColumns,
        ends: Ends,
        replaced: &[Arc<dyn Stage>],
    ) -> Option<Arc<dyn Stage>> {
        Some(Arc::new(UnpackEnds { by: Arc::new(by), ends, replaced: replaced.into() }))
    }

    fn first_of(
        &self,
        filter: Option<Arc<Filter>>,
        sort: &Sort,
        count: u64,
    ) -> Option<Arc<dyn Stage>> {
        let [part] = sort.spec.parts() else { return None };
        let by_time = part.meta.is_none() && part.path.as_str() == &*self.shape.time_field;
        if !by_time || count > unpack_top::COUNT_MAX {
            return None;
        }
        let (shape, descending) = (self.shape.clone(), part.descending);
        let order = DocBuf::build(|out| {
            let path = format!("control.min.{}", self.shape.time_field);
            out.put(&path, if descending { -1 } else { 1 });
        });
        let ordered = Ordered {
            span: self.span?.saturating_mul(1000),
            order: Arc::new(SortSpec::parse(order.as_doc()).ok()?),
        };
        let (count, sort) = (count as usize, Arc::new(sort.same()));
        Some(Arc::new(UnpackTop(Top { shape, filter, descending, count, ordered, sort })))
    }

    fn asks<'f>(&'f self, next: Option<&'f Filter>) -> Option<Option<&'f Filter>> {
        Some(next)
    }

    fn implied(&self, filter: &Filter) -> Option<Filter> {
        implied(&self.shape, self.span, filter)
    }
}

/// The measurements of a bucket behind the first `examined` ones, and of the buckets after it.
pub(super) fn resumed(
    input: Box<dyn Source>,
    shape: Arc<Shape>,
    (bucket, examined): (Vec<u8>, usize),
) -> Box<dyn Source> {
    Box::new(Running { bucket, unpacked: Some(examined), ..Running::new(input, shape) })
}

impl Running {
    fn new(input: Box<dyn Source>, shape: Arc<Shape>) -> Running {
        let (bucket, part) = (Vec::new(), Vec::new());
        Running { input, shape, bucket, unpacked: None, part, at: 0 }
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
        let bucket = Doc::trusted(&self.bucket);
        let mut unpacker = Unpacker::new(bucket, &self.shape)?;
        // Not `tick`: if a budget of entries ended here, the rest of the part would be lost.
        for _ in 0..before {
            cx.pass()?;
            unpacker.skip()?;
        }
        let mut count = 0;
        while unpacker.append(&mut self.part)? {
            count += 1;
            cx.pass()?;
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
