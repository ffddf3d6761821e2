//! Spans: what a tracing system is told of single operations. An exporter takes them; without one there are none.
//!
//! ```text
//!   request -- sampled by its trace --> queue (bounded) --> exporter, on a thread of its own
//!                                         \-- full --> dropped, and counted
//! ```
//!
//! Off, a request costs one load here. A request never waits for the exporter.
//!
//! A client continues its own trace by a comment `{traceparent: "00-<trace>-<span>-<flags>"}`, in W3C's format; its
//! flag then decides, not the ratio.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nagi_bson::{DocWriter, Value};
use parking_lot::{Condvar, Mutex};

use crate::metrics::Counter;

/// Spans that wait for the exporter.
const QUEUE_MAX: usize = 4096;
/// Their memory.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// The longest text of a span: names have at most 255 bytes, summaries of plans name an index for each branch.
const TEXT_BYTES_MAX: usize = 1024;
/// From this number on the exporter is woken.
const WAKE_AT: usize = QUEUE_MAX / 4;

/// An operation that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub trace_id: [u8; 16],
    pub id: [u8; 8],
    /// The span of the client that the operation belongs to.
    pub parent: Option<[u8; 8]>,
    /// Nanoseconds since 1970.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// The name of the command.
    pub operation: &'static str,
    pub database: String,
    /// Empty for commands without a collection.
    pub collection: String,
    /// Code and name of the error that it failed with.
    pub error: Option<(i32, String)>,
    /// Address and port of the client.
    pub client: String,
    pub returned: Option<u64>,
    pub keys_examined: u64,
    pub docs_examined: u64,
    pub plan_summary: String,
}

/// Numbers of spans since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    pub recorded: i64,
    /// Because the queue was full.
    pub dropped: i64,
}

/// The spans of a server that the exporter has not taken yet.
#[derive(Default)]
pub(crate) struct Spans {
    /// 0: off. Otherwise the requests whose random number is below it are recorded.
    threshold: AtomicU64,
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// The exporter ends.
    closed: AtomicBool,
    recorded: Counter,
    dropped: Counter,
    /// What the exporter tells of its work.
    pub(crate) exports: Exports,
}

#[derive(Default)]
struct Queue {
    spans: Vec<Span>,
    bytes: usize,
}

impl Queue {
    fn is_due(&self) -> bool {
        self.spans.len() >= WAKE_AT || self.bytes >= QUEUE_BYTES_MAX / 4
    }
}

impl Span {
    /// Cuts its texts to what a span may have.
    fn cut(&mut self) {
        let error = self.error.as_mut().map(|(_, name)| name);
        let texts =
            [&mut self.database, &mut self.collection, &mut self.client, &mut self.plan_summary];
        for text in texts.into_iter().chain(error) {
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            }
            text.shrink_to_fit();
        }
    }

    fn bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |(_, name)| name.capacity());
        let texts = [&self.database, &self.collection, &self.client, &self.plan_summary];
        size_of::<Span>() + texts.iter().map(|text| text.capacity()).sum::<usize>() + error
    }
}

/// Messages to the collector.
#[derive(Default)]
pub(crate) struct Exports {
    pub(crate) sent: Counter,
    pub(crate) failed: Counter,
    /// Spans in messages that failed.
    pub(crate) spans_lost: Counter,
}

/// The trace that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) trace_id: [u8; 16],
    pub(crate) parent: Option<[u8; 8]>,
}

impl Spans {
    /// Switches spans on, for a share of requests from 0 to 1. With 0 only requests of traces of clients are recorded.
    pub(crate) fn switch_on(&self, ratio: f64) {
        let share = (ratio.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        self.threshold.store(share.max(1), Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.threshold.load(Relaxed) != 0
    }

    /// The trace of a request that is to be recorded; `draw` gives random numbers.
    pub(crate) fn sample(
        &self,
        comment: Option<Value<'_>>,
        draw: &mut dyn FnMut() -> u64,
    ) -> Option<Trace> {
        let given = comment.and_then(|comment| comment.as_doc()?.get("traceparent").as_str());
        if let Some((trace_id, parent, sampled)) = given.and_then(parse_parent) {
            return sampled.then_some(Trace { trace_id, parent: Some(parent) });
        }
        let random = draw();
        if random >= self.threshold.load(Relaxed) {
            return None;
        }
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&draw().to_be_bytes());
        trace_id[8..].copy_from_slice(&(random | 1).to_be_bytes());
        Some(Trace { trace_id, parent: None })
    }

    /// Queues a span, or drops it if the queue is full.
    pub(crate) fn record(&self, mut span: Span) {
        span.cut();
        let bytes = span.bytes();
        let mut queue = self.queue.lock();
        if queue.spans.len() >= QUEUE_MAX || queue.bytes + bytes > QUEUE_BYTES_MAX {
            drop(queue);
            self.dropped.increment();
            return;
        }
        let was_due = queue.is_due();
        queue.spans.push(span);
        queue.bytes += bytes;
        let wakes = queue.is_due() && !was_due;
        drop(queue);
        self.recorded.increment();
        if wakes {
            self.arrived.notify_one();
        }
    }

    /// Takes all spans, once there are many or `time` has passed. Returns false if the server stops.
    pub(crate) fn take(&self, time: Duration) -> (Vec<Span>, bool) {
        let mut queue = self.queue.lock();
        if !queue.is_due() && !self.closed.load(Relaxed) {
            self.arrived.wait_for(&mut queue, time);
        }
        (std::mem::take(&mut *queue).spans, !self.closed.load(Relaxed))
    }

    /// Lets the exporter end.
    pub(crate) fn close(&self) {
        let _queue = self.queue.lock();
        self.closed.store(true, Relaxed);
        self.arrived.notify_all();
    }

    pub(crate) fn counts(&self) -> SpanCounts {
        SpanCounts { recorded: self.recorded.get(), dropped: self.dropped.get() }
    }

    /// `nagi.openTelemetry` of `serverStatus`.
    pub(crate) fn write_status(&self, out: &mut DocWriter<'_>) {
        let counts = self.counts();
        out.put("spansRecorded", counts.recorded);
        out.put("spansDropped", counts.dropped);
        out.put("spansLost", self.exports.spans_lost.get());
        out.put("exportsSent", self.exports.sent.get());
        out.put("exportsFailed", self.exports.failed.get());
    }
}

type Parent = ([u8; 16], [u8; 8], bool);

/// Reads W3C's `traceparent`: trace, span, and if the client samples the trace.
fn parse_parent(text: &str) -> Option<Parent> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let [version] = hex::<1>(version)?;
    // Later versions may have more parts, version 0 has not.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let (trace, span, [flags]) = (hex::<16>(trace)?, hex::<8>(span)?, hex::<1>(flags)?);
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span, flags & 1 == 1))
}

/// Reads exactly `N` bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Spreads the numbers of a sequence over all numbers (the finalizer of SplitMix64).
pub(crate) fn spread(seed: u64) -> u64 {
    let mut z = seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;

    use super::*;

    fn span() -> Span {
        Span {
            trace_id: [1; 16],
            id: [2; 8],
            parent: None,
            begin_ns: 1,
            end_ns: 2,
            operation: "find",
            database: "d".to_owned(),
            collection: "c".to_owned(),
            error: None,
            client: String::new(),
            returned: None,
            keys_examined: 0,
            docs_examined: 0,
            plan_summary: String::new(),
        }
    }

    #[test]
    fn traces_of_clients_are_continued_as_they_say() {
        let spans = Spans::default();
        spans.switch_on(0.0);
        let sample = |parent: &str| {
            let comment = doc! { "traceparent": parent };
            spans.sample(Some(Value::Doc(comment.as_doc())), &mut || u64::MAX)
        };
        let trace =
            sample("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").expect("a trace");
        assert_eq!((trace.trace_id[0], trace.parent.map(|p| p[0])), (0x0a, Some(0xb7)));
        for other in [
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-00",
            "00-0af7651916cd43dd8448eb211c8031\u{e9}-b7ad6b7169203331-01",
            "",
            "00-x",
        ] {
            assert_eq!(sample(other), None, "{other}");
        }
        assert!(sample("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
        assert_eq!(spans.sample(Some(Value::String("traceparent")), &mut || u64::MAX), None);
    }

    #[test]
    fn a_share_of_requests_is_sampled() {
        let spans = Spans::default();
        assert!(!spans.is_on());
        spans.switch_on(0.25);
        let mut seed = 0_u64;
        let mut draw = || {
            seed = seed.wrapping_add(0x9FB2_1C65_1E98_DF25);
            spread(seed)
        };
        let count = (0..10_000).filter(|_| spans.sample(None, &mut draw).is_some()).count();
        assert!((2200..2800).contains(&count), "{count}");
        spans.switch_on(1.0);
        assert!((0..1000).all(|_| spans.sample(None, &mut draw).is_some()));
    }

    #[test]
    fn long_texts_are_cut_and_the_queue_has_a_limit_of_bytes() {
        let spans = Spans::default();
        let long = "\u{e9}".repeat(500_001);
        let error = Some((1, long.clone()));
        for _ in 0..QUEUE_MAX {
            let (database, collection) = (long.clone(), format!("x{long}"));
            let (client, plan_summary) = (long.clone(), long.clone());
            let error = error.clone();
            spans.record(Span { database, collection, client, error, plan_summary, ..span() });
        }
        let queued = spans.queue.lock().spans.len();
        let bytes: usize = spans.queue.lock().spans.iter().map(Span::bytes).sum();
        assert!(bytes <= QUEUE_BYTES_MAX && bytes > QUEUE_BYTES_MAX / 2, "{bytes}");
        assert_eq!(spans.counts().dropped, (QUEUE_MAX - queued) as i64);
        let (taken, _) = spans.take(Duration::from_secs(60));
        assert_eq!(taken[0].database.len(), TEXT_BYTES_MAX);
        assert_eq!(taken[0].collection.len(), TEXT_BYTES_MAX - 1);
        assert_eq!(spans.queue.lock().bytes, 0);
        spans.record(span());
        assert_eq!(spans.queue.lock().spans.len(), 1);
    }

    #[test]
    fn a_full_queue_drops() {
        let spans = Spans::default();
        for _ in 0..QUEUE_MAX + 5 {
            spans.record(span());
        }
        assert_eq!(spans.counts(), SpanCounts { recorded: QUEUE_MAX as i64, dropped: 5 });
        let (taken, goes_on) = spans.take(Duration::from_secs(60));
        assert_eq!((taken.len(), goes_on), (QUEUE_MAX, true));
        spans.close();
        assert_eq!(spans.take(Duration::from_secs(60)), (Vec::new(), false));
    }
}
