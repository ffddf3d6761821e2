//! `$_internalUnpackBucket`, `$_unpackBucket`: yields the measurements of the buckets of a time series collection.
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
use nagi_timeseries::bucket::{Shape, Unpacked, Unpacker};

use super::{
    Sort,
    prelude::*,
    unpack_columns::{ByColumns, dates_compared},
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
    parse: |spec, _| INTERNAL.parse(spec),
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

pub(super) static EXTERNAL_UNPACK_BUCKET: StageSpec = StageSpec {
    name: EXTERNAL_NAME,
    shape: How::Same,
    parse: |spec, _| EXTERNAL.parse(spec),
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

pub(super) const NAME: &str = "$_internalUnpackBucket";

const EXTERNAL_NAME: &str = "$_unpackBucket";

/// The size of a part, in bytes; it has at least one measurement.
const PART_BYTES_MAX: usize = 1 << 20;

/// The most measurements of a part.
const PART_COUNT_MAX: usize = 4096;

struct UnpackBucket {
    shape: Arc<Shape>,
    span: Option<i64>,
    /// Both ends of the times that later stages want.
    times: (i64, i64),
}

/// All times.
const ANY: (i64, i64) = (i64::MIN, i64::MAX);

struct Running {
    input: Box<dyn Source>,
    shape: Arc<Shape>,
    times: (i64, i64),
    /// A copy of the bucket, because its output spans several calls.
    bucket: Vec<u8>,
    /// The number of its measurements that have been unpacked or left out; none if these are all.
    unpacked: Option<usize>,
    /// Measurements, one after another, and the offset of the current one.
    part: Vec<u8>,
    at: usize,
}

/// A name of the stage: its arguments, and the codes for those that it does not take.
struct Dialect {
    name: &'static str,
    /// True if it takes `bucketMaxSpanSeconds`.
    has_span: bool,
    no_object: i32,
    time_no_string: i32,
    meta_no_string: i32,
    /// The time field; none if it may have dots, and is then in no bucket.
    time_nested: Option<i32>,
    meta_nested: i32,
    time_zero: i32,
    meta_zero: i32,
    unknown: i32,
    no_time: i32,
}

/// How views name it.
static INTERNAL: Dialect = Dialect {
    name: NAME,
    has_span: true,
    no_object: 5_346_500,
    time_no_string: 5_346_504,
    meta_no_string: 5_346_505,
    time_nested: Some(5_346_504),
    meta_nested: 5_346_505,
    time_zero: 9_568_701,
    meta_zero: 9_568_702,
    unknown: 5_346_506,
    no_time: 5_346_508,
};

/// How other products of MongoDB name it, in pipelines over `system.buckets`.
static EXTERNAL: Dialect = Dialect {
    name: EXTERNAL_NAME,
    has_span: false,
    no_object: 5_612_400,
    time_no_string: 5_612_401,
    meta_no_string: 5_612_402,
    time_nested: None,
    meta_nested: 5_612_403,
    time_zero: 9_568_703,
    meta_zero: 9_568_704,
    unknown: 5_612_404,
    no_time: 5_612_405,
};

impl Dialect {
    fn field(
        &self,
        name: &str,
        value: Value<'_>,
        (no_string, nested, zero): (i32, Option<i32>, i32),
    ) -> Result<Box<str>> {
        let Value::String(text) = value else {
            bail!(
                Code::Location(no_string),
                "{name} field must be a string, got: {}",
                value.kind().name()
            )
        };
        if text.contains('\0') {
            bail!(Code::Location(zero), "{name} must not contain a null byte");
        }
        match nested.filter(|_| text.contains('.')) {
            Some(code) => bail!(
                Code::Location(code),
                "{name} field must be a single-element field path, got: {text}"
            ),
            None => Ok(text.into()),
        }
    }

    fn parse(&self, spec: Value<'_>) -> Result<Box<dyn Stage>> {
        let Value::Doc(spec) = spec else {
            bail!(
                Code::Location(self.no_object),
                "{} specification must be an object, got: {}",
                self.name,
                spec.kind().name()
            )
        };
        let of_time = (self.time_no_string, self.time_nested, self.time_zero);
        let of_meta = (self.meta_no_string, Some(self.meta_nested), self.meta_zero);
        let (mut time_field, mut meta_field, mut span) = (None, None, None);
        for element in spec {
            let value = element.value();
            match element.name() {
                "timeField" => time_field = Some(self.field("timeField", value, of_time)?),
                "metaField" => meta_field = Some(self.field("metaField", value, of_meta)?),
                "bucketMaxSpanSeconds" if self.has_span => {
                    span = number::as_i64_exact(value).filter(|span| *span > 0);
                    if span.is_none() {
                        bail!(
                            Code::Location(5_510_600),
                            "bucketMaxSpanSeconds field must be a positive integer, got: {value}"
                        )
                    }
                }
                other => bail!(
                    Code::Location(self.unknown),
                    "unrecognized parameter to {}: {other}",
                    self.name
                ),
            }
        }
        let Some(time_field) = time_field else {
            bail!(
                Code::Location(self.no_time),
                "The {} stage requires a timeField parameter",
                self.name
            )
        };
        let shape = Arc::new(Shape { time_field, meta_field, only: None });
        Ok(Box::new(UnpackBucket { shape, span, times: ANY }))
    }
}

impl Stage for UnpackBucket {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { times: self.times, ..Running::new(input, self.shape.clone()) })
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
        Some(Arc::new(UnpackBucket { shape: Arc::new(shape), ..*self }))
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

    fn narrowed(&self, filter: &Filter) -> Option<Arc<dyn Stage>> {
        let times = times_of(filter, &self.shape.time_field);
        (times != ANY).then(|| {
            let times = (self.times.0.max(times.0), self.times.1.min(times.1));
            Arc::new(UnpackBucket { shape: self.shape.clone(), times, ..*self }) as Arc<dyn Stage>
        })
    }
}

/// Both ends of a range with all dates that the comparisons of the filter with dates allow.
fn times_of(filter: &Filter, time_field: &str) -> (i64, i64) {
    let Filter::And(parts) = filter else { return times_compared(filter, time_field) };
    parts
        .iter()
        .map(|part| times_compared(part, time_field))
        .fold(ANY, |all, one| (all.0.max(one.0), all.1.min(one.1)))
}

fn times_compared(filter: &Filter, time_field: &str) -> (i64, i64) {
    match filter {
        Filter::Field { path, pred } if path.as_str() == time_field => {
            dates_compared(pred).unwrap_or(ANY)
        }
        _ => ANY,
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

/// Refuses a bucket whose metadata would be lost (5369601).
fn check_metadata(bucket: Doc<'_>, shape: &Shape) -> Result<()> {
    if shape.meta_field.is_none() && !bucket.get("meta").is_missing() {
        bail!(
            Code::Location(5_369_601),
            "The {NAME} stage expects buckets to have missing metadata regions if the metaField \
             parameter is not provided"
        );
    }
    Ok(())
}

impl Running {
    fn new(input: Box<dyn Source>, shape: Arc<Shape>) -> Running {
        let (bucket, part) = (Vec::new(), Vec::new());
        Running { input, shape, times: ANY, bucket, unpacked: None, part, at: 0 }
    }

    /// The same over another input; only before the first document.
    fn over(&self, input: Box<dyn Source>) -> Running {
        Running { times: self.times, ..Running::new(input, self.shape.clone()) }
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
        let wanted = self.times.0..=self.times.1;
        while unpacker.append_between(wanted.clone(), &mut self.part)? != Unpacked::End {
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
                    let bucket = self.input.doc();
                    check_metadata(bucket, &self.shape)?;
                    self.bucket.clear();
                    self.bucket.extend_from_slice(bucket.as_bytes());
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
