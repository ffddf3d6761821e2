//! The earliest or latest measurements of a time series, without unpacking all buckets: what the rewriting of a
//! pipeline makes of `$_internalUnpackBucket`, `$sort` by time and `$limit`.
//!
//! The best measurements so far are kept. A bucket whose range of times has none that is better is not unpacked. If the
//! plan reads the buckets in the order of their begin, by an index on metadata and time for one metadata, reading stops
//! at the first bucket after which nothing better can follow:
//!
//!   latest:    a bucket contains times up to its begin plus the span, and later buckets begin earlier
//!   earliest:  a bucket contains no time before its begin, and later buckets begin later
//!
//! If the best ones need more memory than a sort may use, the sort is made after all, of them and of everything that
//! has not been read: it may use the disk.

use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc};

use nagi_lang::{filter::Filter, sort::SortSpec};
use nagi_timeseries::bucket::{Shape, Unpacker};

use super::{
    Sort,
    prelude::*,
    unpack_bucket::{self, NAME},
};
use crate::source::{Eof, SourceStats};

/// The most measurements that are kept; with more, the pipeline sorts.
pub(super) const COUNT_MAX: u64 = 100;

/// What is read.
#[derive(Clone)]
pub(super) struct Top {
    pub(super) shape: Arc<Shape>,
    /// A condition on measurements.
    pub(super) filter: Option<Arc<Filter>>,
    /// True for the latest ones.
    pub(super) descending: bool,
    pub(super) count: usize,
    pub(super) ordered: Ordered,
    /// The sort, for more of them than fit into memory.
    pub(super) sort: Arc<Sort>,
}

/// What is known if the buckets come in the order of their begin.
#[derive(Clone)]
pub(super) struct Ordered {
    /// The span of a bucket in milliseconds.
    pub(super) span: i64,
    pub(super) order: Arc<SortSpec>,
}

pub(super) struct UnpackTop(pub(super) Top);

/// A measurement; the greatest one is the least wanted.
struct Ranked {
    rank: i128,
    doc: Vec<u8>,
}

struct Running {
    /// The buckets, or the sort over the measurements.
    input: Box<dyn Source>,
    sorts: bool,
    top: Top,
    /// The result, the next one last; none before the first call.
    found: Option<Vec<Vec<u8>>>,
    current: Vec<u8>,
}

/// What is sorted if the best measurements do not fit into memory: these, and those that were not examined.
struct Unsorted {
    best: Vec<Vec<u8>>,
    /// Yields the measurements that were not examined.
    rest: Box<dyn Source>,
    /// True if the current measurement is one of them.
    in_rest: bool,
    filter: Option<Arc<Filter>>,
    current: Vec<u8>,
    arena: Bump,
}

impl Stage for UnpackTop {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            input,
            sorts: false,
            top: self.0.clone(),
            found: None,
            current: Vec::new(),
        })
    }

    fn wanted_order(&self) -> Option<&Arc<SortSpec>> {
        Some(&self.0.ordered.order)
    }

    fn asks<'f>(&'f self, _: Option<&'f Filter>) -> Option<Option<&'f Filter>> {
        Some(self.0.filter.as_deref())
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
        match self.end(bucket, "min") {
            Some(begin) if self.descending => {
                self.rank(begin).saturating_sub(i128::from(self.ordered.span))
            }
            Some(begin) => self.rank(begin),
            None => i128::MIN,
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

    fn add(&mut self, rank: i128, doc: &[u8]) {
        self.bytes += doc.len();
        self.heap.push(Ranked { rank, doc: doc.to_vec() });
        if self.heap.len() > self.count
            && let Some(worst) = self.heap.pop()
        {
            self.bytes -= worst.doc.len();
        }
    }

    /// The measurements, the best one last.
    fn into_docs(self) -> Vec<Vec<u8>> {
        self.heap.into_sorted_vec().into_iter().rev().map(|ranked| ranked.doc).collect()
    }
}

impl Running {
    /// Gathers the best measurements. None if they are too large: then `input` is a sort.
    fn gather(&mut self, cx: &mut Cx<'_>) -> Result<Option<Vec<Vec<u8>>>> {
        let mut best = Best { heap: BinaryHeap::new(), bytes: 0, count: self.top.count };
        let (mut bucket, mut arena) = (Vec::new(), Bump::new());
        let is_ordered = self.input.is_in_wanted_order();
        while self.input.advance(cx)? {
            cx.pass()?;
            let found = self.input.doc();
            if is_ordered && best.is_beaten(self.top.best_from(found)) {
                break;
            }
            if best.is_beaten(self.top.best_in(found)) {
                continue;
            }
            bucket.clear();
            bucket.extend_from_slice(found.as_bytes());
            let doc = Doc::trusted(&bucket);
            if let Some(examined) = self.top.unpack(doc, &mut best, &mut arena, cx)? {
                self.sort(best, (bucket, examined));
                return Ok(None);
            }
        }
        Ok(Some(best.into_docs()))
    }

    /// Sorts instead. Of the current bucket, so many measurements have been examined.
    fn sort(&mut self, best: Best, (bucket, examined): (Vec<u8>, usize)) {
        let buckets = std::mem::replace(&mut self.input, Box::new(Eof));
        let Top { shape, filter, sort, count, .. } = &self.top;
        let unsorted = Unsorted {
            best: best.into_docs(),
            rest: unpack_bucket::resumed(buckets, shape.clone(), (bucket, examined)),
            in_rest: false,
            filter: filter.clone(),
            current: Vec::new(),
            arena: Bump::new(),
        };
        self.input = sort.open_limited(Box::new(unsorted), Some(*count as u64));
        self.sorts = true;
    }
}

impl Top {
    /// Adds the measurements of a bucket to the best ones. If these become too large, it ends, and returns the number
    /// of measurements that it has examined.
    fn unpack(
        &self,
        bucket: Doc<'_>,
        best: &mut Best,
        arena: &mut Bump,
        cx: &mut Cx<'_>,
    ) -> Result<Option<usize>> {
        let mut unpacker = Unpacker::new(bucket, &self.shape)?;
        let (mut measurement, mut examined) = (Vec::new(), 0);
        while unpacker.append(&mut measurement)? {
            cx.pass()?;
            examined += 1;
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
                best.add(rank, &measurement);
                if best.bytes > self.sort.memory_bytes_max() {
                    return Ok(Some(examined));
                }
            }
            measurement.clear();
        }
        Ok(None)
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.found.is_none() && !self.sorts {
            self.found = self.gather(cx)?;
        }
        if self.sorts {
            return self.input.advance(cx);
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
        if self.sorts { self.input.doc() } else { Doc::trusted(&self.current) }
    }

    fn stats(&self) -> SourceStats {
        if self.sorts { self.input.stats() } else { SourceStats::default() }
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        match self.sorts {
            // The sources of the sort are none of the plan.
            true => match self.input.inputs() {
                [unsorted] => match unsorted.inputs() {
                    [rest] => rest.inputs(),
                    others => others,
                },
                others => others,
            },
            false => slice::from_mut(&mut self.input),
        }
    }
}

impl Source for Unsorted {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if let Some(doc) = self.best.pop() {
            self.current = doc;
            return Ok(true);
        }
        self.in_rest = true;
        while self.rest.advance(cx)? {
            cx.tick()?;
            let Some(filter) = &self.filter else { return Ok(true) };
            renew(&mut self.arena);
            if filter.matches(self.rest.doc(), &cx.matching(&self.arena))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        if self.in_rest { self.rest.doc() } else { Doc::trusted(&self.current) }
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.rest)
    }
}
