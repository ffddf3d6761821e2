//! The earliest or latest measurements of a time series, without unpacking all buckets: what the rewriting of a
//! pipeline makes of `$_internalUnpackBucket`, `$sort` by time and `$limit`.
//!
//! The best measurements so far are kept. A bucket whose range of times has none that is better is not unpacked. If the
//! buckets come in the order of their begin, which an index on metadata and time provides for one metadata, reading
//! stops at the first bucket after which nothing better can follow:
//!
//!   latest:    a bucket contains times up to its begin plus the span, and later buckets begin earlier
//!   earliest:  a bucket contains no time before its begin, and later buckets begin later

use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc};

use nagi_lang::filter::Filter;
use nagi_timeseries::bucket::{Shape, Unpacker};

use super::{prelude::*, unpack_bucket::NAME};

/// The most measurements that are kept; with more, the pipeline sorts.
pub(super) const COUNT_MAX: u64 = 100;

/// The most bytes of them.
const BYTES_MAX: usize = 100 << 20;

/// What is read.
#[derive(Clone)]
pub(super) struct Top {
    pub(super) shape: Arc<Shape>,
    /// A condition on measurements.
    pub(super) filter: Option<Arc<Filter>>,
    /// True for the latest ones.
    pub(super) descending: bool,
    pub(super) count: usize,
    /// The span of a bucket in milliseconds, if the buckets come in the order of their begin.
    pub(super) ordered: Option<i64>,
}

pub(super) struct UnpackTop(pub(super) Top);

/// A measurement; the greatest one is the least wanted.
struct Ranked {
    rank: i128,
    doc: Vec<u8>,
}

struct Running {
    input: Box<dyn Source>,
    top: Top,
    /// The result, the next one last; none before the first call.
    found: Option<Vec<Vec<u8>>>,
    current: Vec<u8>,
}

impl Stage for UnpackTop {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { input, top: self.0.clone(), found: None, current: Vec::new() })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        let Top { shape, filter, descending, count, .. } = &self.0;
        out.doc(NAME, |out| {
            out.put("timeField", &*shape.time_field);
            if let Some(meta) = &shape.meta_field {
                out.put("metaField", &**meta);
            }
            if let Some(only) = &shape.only {
                out.array("include", |out| only.iter().for_each(|name| out.push(&**name)));
            }
            if let Some(filter) = filter {
                out.put("eventFilter", &filter.to_doc());
            }
            out.doc("sort", |out| out.put(&shape.time_field, if *descending { -1 } else { 1 }));
            out.put("limit", *count as i64);
        });
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl Top {
    /// The rank of a time: a lesser one is wanted more.
    fn rank(&self, time: i64) -> i128 {
        if self.descending { -i128::from(time) } else { i128::from(time) }
    }

    /// The time of one end of a bucket's range.
    fn end(&self, bucket: Doc<'_>, end: &str) -> Option<i64> {
        let control = bucket.get("control").as_doc()?;
        match control.get(end).as_doc()?.get(&self.shape.time_field) {
            Value::DateTime(time) => Some(time),
            _ => None,
        }
    }

    /// The least rank that a measurement of the bucket may have.
    fn best_in(&self, bucket: Doc<'_>) -> i128 {
        let end = self.end(bucket, if self.descending { "max" } else { "min" });
        end.map_or(i128::MIN, |time| self.rank(time))
    }

    /// The least rank that a measurement of this bucket and the ones after it may have.
    fn best_from(&self, bucket: Doc<'_>) -> i128 {
        match (self.ordered, self.end(bucket, "min")) {
            (Some(span), Some(begin)) if self.descending => {
                self.rank(begin).saturating_sub(i128::from(span))
            }
            (Some(_), Some(begin)) => self.rank(begin),
            _ => i128::MIN,
        }
    }
}

/// The best measurements so far.
struct Best {
    heap: BinaryHeap<Ranked>,
    bytes: usize,
    count: usize,
}

impl Best {
    /// True if a measurement of this rank is not among the best.
    fn is_beaten(&self, rank: i128) -> bool {
        self.heap.len() == self.count && self.heap.peek().is_none_or(|worst| rank >= worst.rank)
    }

    fn add(&mut self, rank: i128, doc: &[u8]) -> Result<()> {
        self.bytes += doc.len();
        self.heap.push(Ranked { rank, doc: doc.to_vec() });
        if self.heap.len() > self.count
            && let Some(worst) = self.heap.pop()
        {
            self.bytes -= worst.doc.len();
        }
        if self.bytes > BYTES_MAX {
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Sort exceeded memory limit of {BYTES_MAX} bytes: the first measurements of a time \
                 series are sorted in memory"
            )
        }
        Ok(())
    }
}

impl Running {
    fn gather(&mut self, cx: &mut Cx<'_>) -> Result<Vec<Vec<u8>>> {
        let mut best = Best { heap: BinaryHeap::new(), bytes: 0, count: self.top.count };
        let (mut bucket, mut arena) = (Vec::new(), Bump::new());
        while self.input.advance(cx)? {
            cx.tick()?;
            let found = self.input.doc();
            if best.is_beaten(self.top.best_from(found)) {
                break;
            }
            if best.is_beaten(self.top.best_in(found)) {
                continue;
            }
            bucket.clear();
            bucket.extend_from_slice(found.as_bytes());
            self.top.unpack(Doc::trusted(&bucket), &mut best, &mut arena, cx)?;
        }
        let sorted = best.heap.into_sorted_vec();
        Ok(sorted.into_iter().rev().map(|ranked| ranked.doc).collect())
    }
}

impl Top {
    fn unpack(
        &self,
        bucket: Doc<'_>,
        best: &mut Best,
        arena: &mut Bump,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let mut unpacker = Unpacker::new(bucket, &self.shape)?;
        let mut measurement = Vec::new();
        while unpacker.append(&mut measurement)? {
            cx.tick()?;
            let doc = Doc::trusted(&measurement);
            // Only dates are in a bucket that this server has made; others come before all dates.
            let rank = match doc.get(&self.shape.time_field) {
                Value::DateTime(time) => self.rank(time),
                _ => self.rank(i64::MIN),
            };
            let wanted = !best.is_beaten(rank)
                && match &self.filter {
                    Some(filter) => {
                        renew(arena);
                        filter.matches(doc, &cx.matching(arena))?
                    }
                    None => true,
                };
            if wanted {
                best.add(rank, &measurement)?;
            }
            measurement.clear();
        }
        Ok(())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.found.is_none() {
            self.found = Some(self.gather(cx)?);
        }
        match self.found.as_mut().and_then(Vec::pop) {
            Some(doc) => {
                self.current = doc;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.current)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
