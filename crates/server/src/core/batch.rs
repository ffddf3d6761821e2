//! Batches: copies documents from a producer into the reply and parks the remaining cursor.
//!
//! A batch is full after its number of documents or at 16 MiB, whichever comes first. A document that would exceed the
//! size is left for the next batch, unless it is the first of its batch. A batch of large documents also ends when
//! other requests wait for memory: one that holds a large reply should not wait for more.
//!
//! `find`, `aggregate` and the listing commands call [`reply_first`], `getMore` calls [`reply_next`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{ArrayWriter, Doc, DocWriter};
use nagi_budget::{Charge, Pool};
use nagi_error::Result;
use nagi_query::{Interrupt as _, Room, Take};
use nagi_store::Arrivals;

use crate::clock;
use crate::core::access;
use crate::core::command::Context;
use crate::core::cursors::{Api, OpenCursor};
use crate::core::needs::Needs;
use crate::core::producer::Producer;
use crate::limits::{AWAIT_DATA, BATCH_BYTES_MAX, FIRST_BATCH_COUNT, IDLE_PEER_LOOK};
use crate::message_memory::{FREE_BYTES, MemoryCharge, doubled};
use crate::query_stats::Pending;
use crate::request::Request;

/// The factor by which the buffer of a large reply grows.
const REPLY_GROWTH: usize = 8;
/// A larger document is not read to find out if it fits into a batch.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Space for the fields of a reply behind its documents.
const REPLY_TAIL_BYTES: usize = 4 << 10;

/// The options of a first batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstBatch {
    /// The number of documents; `None` means 101.
    pub(crate) count: Option<i64>,
    /// Close the cursor after this batch.
    pub(crate) single: bool,
    pub(crate) no_timeout: bool,
    pub(crate) tailable: bool,
    pub(crate) await_data: bool,
    /// `includeQueryStatsMetrics`.
    pub(crate) metrics: bool,
}

impl FirstBatch {
    pub(crate) const DEFAULT: FirstBatch = FirstBatch {
        count: None,
        single: false,
        no_timeout: false,
        tailable: false,
        await_data: false,
        metrics: false,
    };
}

/// The result of filling a batch.
struct Filled {
    count: u64,
    exhausted: bool,
}

/// Copies documents into `out` until the batch is full.
fn fill(
    cx: &Context<'_>,
    producer: &mut Producer,
    count_max: u64,
    single: bool,
    out: &mut ArrayWriter<'_>,
) -> Result<Filled> {
    if count_max == 0 {
        return Ok(Filled { count: 0, exhausted: false });
    }
    let mut count = 0;
    let watch = cx.watch();
    let charge = &cx.connection.charge;
    let mut space = Space { bytes: FREE_BYTES, refused: false };
    let room = Room { docs: count_max, bytes: BATCH_BYTES_MAX as u64 };
    let more = producer.batch(&watch, room, &mut |doc| {
        let bytes = out.len() + doc.len() + 16;
        if count > 0 && bytes > BATCH_BYTES_MAX {
            return Ok(Take::Refused);
        }
        if bytes > space.bytes {
            // It may be the only one of its batch, whose buffer then has its size.
            let is_alone = count == 0 && doc.len() > KEPT_BYTES_MAX;
            if is_alone {
                charge.wait_for_reply(bytes + REPLY_TAIL_BYTES, &mut || watch.check())?;
                out.reserve_exact(doc.len() + REPLY_TAIL_BYTES);
            } else if !charge.reply_fits(bytes) {
                // The rest of the documents go into the next batch. If there is no next batch, the request waits for
                // memory.
                if count > 0 && !single {
                    return Ok(Take::Refused);
                }
                charge.wait_for_reply(doubled(bytes), &mut || watch.check())?;
            }
            match is_alone {
                true => space.bytes = bytes,
                false => space.grow(charge, bytes, (count, count_max), out),
            }
        }
        out.push_doc(doc);
        count += 1;
        let is_crowded = || !single && cx.server.store.budget().has_waiting();
        Ok(match count == count_max {
            true => Take::Last,
            false if doc.len() > FREE_BYTES && (is_filled(doc, out) || is_crowded()) => Take::Full,
            false => Take::More,
        })
    })?;
    Ok(Filled { count, exhausted: !more })
}

/// Returns true if a batch that ends with a large document has no space for another one like it. The cursor would have
/// to keep a copy of that until the next batch.
fn is_filled(doc: Doc<'_>, out: &ArrayWriter<'_>) -> bool {
    doc.len() > KEPT_BYTES_MAX && out.len() + doc.len() + 16 > BATCH_BYTES_MAX
}

/// The space of a reply: a large one grows in few steps, because each step copies what it has so far.
struct Space {
    /// The reply needs no further check up to this length.
    bytes: usize,
    /// The budget had no capacity for a larger step.
    refused: bool,
}

impl Space {
    /// Enlarges the buffer of a reply that is to have `bytes` and that is charged for them, by the factor
    /// [`REPLY_GROWTH`], but at most to a full batch, or to what all documents of the batch need if the rest is as
    /// long as those until now. `counts`: how many documents it has, and how many it may have.
    fn grow(
        &mut self,
        charge: &MemoryCharge,
        bytes: usize,
        (count, count_max): (u64, u64),
        out: &mut ArrayWriter<'_>,
    ) {
        self.bytes = bytes;
        let average = bytes as u64 / (count + 1);
        let all = usize::try_from(average.saturating_mul(count_max)).unwrap_or(usize::MAX);
        let wanted = bytes.saturating_mul(REPLY_GROWTH).min(all).min(BATCH_BYTES_MAX);
        if wanted <= bytes || self.refused {
            return;
        }
        // The old buffer exists until it is copied.
        self.refused = !charge.covers(wanted + bytes);
        if !self.refused {
            out.reserve_exact(wanted + REPLY_TAIL_BYTES - out.len());
            self.bytes = wanted;
        }
    }
}

/// Fills the next batch. If it waited for that, the client's rights are checked again after the last document was read:
/// what was written after they were revoked is not replied.
fn next(
    cx: &mut Context<'_>,
    cursor: &mut OpenCursor,
    count_max: u64,
    out: &mut ArrayWriter<'_>,
) -> Result<Filled> {
    let filled = next_awaited(cx, cursor, count_max, out)?;
    if cx.done.waited {
        let needs = (&mut cursor.needs, cursor.id);
        access::check_waited(cx.server, cx.connection, needs)?;
    }
    Ok(filled)
}

/// Fills the next batch. A tailable cursor that awaits data waits for an insert if there was no document.
fn next_awaited(
    cx: &mut Context<'_>,
    cursor: &mut OpenCursor,
    count_max: u64,
    out: &mut ArrayWriter<'_>,
) -> Result<Filled> {
    let arrivals = match &cursor.producer {
        Producer::Query(execution) if cursor.await_data => execution.arrivals(),
        _ => None,
    };
    let Some(arrivals) = arrivals else {
        return fill(cx, &mut cursor.producer, count_max, false, out);
    };
    let until = cx.await_until.take().unwrap_or_else(|| clock::now() + AWAIT_DATA);
    loop {
        let seen = arrivals.version();
        let filled = fill(cx, &mut cursor.producer, count_max, false, out)?;
        if filled.count > 0 || filled.exhausted {
            return Ok(filled);
        }
        // During the wait the request holds neither engine resources nor a ticket.
        cursor.producer.save();
        cx.ticket = None;
        cx.done.waited = true;
        let came = wait(cx, &arrivals, seen, until)?;
        cx.take_ticket()?;
        if !came {
            // The token of a change stream follows the log.
            return match &cursor.producer {
                Producer::Query(execution) if execution.is_change_stream() => {
                    fill(cx, &mut cursor.producer, count_max, false, out)
                }
                _ => Ok(filled),
            };
        }
    }
}

/// Waits for an insert; returns false at `until`. The interrupt check runs every [`IDLE_PEER_LOOK`] and notices that
/// the client has disconnected.
fn wait(cx: &Context<'_>, arrivals: &Arc<Arrivals>, seen: u64, until: Instant) -> Result<bool> {
    let watch = cx.watch();
    loop {
        let look = until.min(clock::now() + IDLE_PEER_LOOK);
        if cx.op.wait_for(arrivals, seen, look, &|| watch.check())? {
            return Ok(true);
        }
        if clock::now() >= until {
            return Ok(false);
        }
    }
}

/// Writes the token from which a scan may be resumed, if it was requested.
fn put_token(producer: &Producer, out: &mut DocWriter<'_>) {
    if let Producer::Query(execution) = producer
        && let Some(token) = execution.resume_token()
    {
        out.put("postBatchResumeToken", &token);
    }
}

/// Writes the cluster time of a snapshot read.
fn put_time(cx: &Context<'_>, cursor: &mut DocWriter<'_>) {
    if let Some(time) = cx.at_cluster_time {
        cursor.put("atClusterTime", nagi_bson::Value::Timestamp(time));
    }
}

/// Adds the statistics of a query to those of the request.
fn note_stats(cx: &mut Context<'_>, producer: &mut Producer) {
    if let Producer::Query(execution) = producer {
        let stats = execution.stats();
        cx.done.note(&stats);
        cx.done.stages = execution.stages();
    }
}

/// Writes the request's statistics, for a client that collects query statistics.
fn put_metrics(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    let done = &cx.done;
    out.doc("metrics", |metrics| {
        metrics.put("keysExamined", done.keys_examined as i64);
        metrics.put("docsExamined", done.docs_examined as i64);
        metrics.put("workingTimeMillis", (clock::micros_since(cx.started) / 1000) as i64);
        metrics.put("hasSortStage", done.has_sort_stage);
        metrics.put("usedDisk", done.used_disk);
        metrics.put("fromMultiPlanner", done.from_multi_planner);
        metrics.put("fromPlanCache", done.from_plan_cache);
    });
}

/// Writes `cursor: {firstBatch, id, ns}` and parks the remaining cursor.
pub(crate) fn reply_first(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    mut producer: Producer,
    namespace: &str,
    how: FirstBatch,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    if let Producer::Query(execution) = &producer {
        cx.op.set_plan_summary(execution.plan_summary());
    }
    let count_max = how.count.unwrap_or(FIRST_BATCH_COUNT).max(0) as u64;
    out.doc("cursor", |cursor| {
        let filled = cursor
            .array("firstBatch", |batch| fill(cx, &mut producer, count_max, how.single, batch));
        note_stats(cx, &mut producer);
        let filled = filled?;
        put_token(&producer, cursor);
        let id = match filled.exhausted || how.single {
            true => 0,
            false => {
                cx.done.returned = Some(filled.count);
                park(cx, request, (producer, namespace, how, filled.count), cursor)?
            }
        };
        cursor.put("id", id);
        cursor.put("ns", namespace);
        put_time(cx, cursor);
        if how.metrics {
            put_metrics(cx, cursor);
        }
        note_batch(cx, filled.count, id, id == 0);
        Ok(())
    })
}

/// Writes a first batch of at most one document, without a cursor.
///
/// # Errors
/// 146 if the document is large and there is no memory for it.
pub(crate) fn reply_point(
    cx: &mut Context<'_>,
    found: Option<Doc<'_>>,
    namespace: &str,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    if let Some(doc) = found
        && doc.len() > FREE_BYTES
    {
        let watch = cx.watch();
        let bytes = doc.len() + REPLY_TAIL_BYTES;
        cx.connection.charge.wait_for_reply(bytes, &mut || watch.check())?;
        out.reserve_exact(bytes);
    }
    let count = u64::from(found.is_some());
    out.doc("cursor", |cursor| {
        cursor.array("firstBatch", |batch| found.into_iter().for_each(|doc| batch.push_doc(doc)));
        cursor.put("id", 0_i64);
        cursor.put("ns", namespace);
        put_time(cx, cursor);
    });
    cx.done.keys_examined = count;
    cx.done.docs_examined = count;
    cx.done.plan_summary = "EXPRESS_IXSCAN { _id: 1 }";
    note_batch(cx, count, 0, true);
    Ok(())
}

fn note_batch(cx: &mut Context<'_>, count: u64, id: i64, exhausted: bool) {
    cx.done.returned = Some(count);
    cx.done.cursor_id = id;
    cx.done.cursor_exhausted = exhausted;
}

/// The part of the command's `maxTimeMS` that is left for the cursor's next batches.
fn time_left(cx: &Context<'_>) -> Option<Duration> {
    cx.deadline.map(|deadline| deadline.saturating_duration_since(clock::now()))
}

/// Begins the query statistics of a request whose cursor is parked, of which the first batch has been noted.
fn begin_query_stats(cx: &Context<'_>, request: &Request<'_>) -> Option<Box<Pending>> {
    let limit = cx.server.query_stats_limit(request)?;
    let client = cx.op.client();
    let query = cx.server.stats_query(request, client.as_deref());
    cx.server.query_stats.begin(limit, &query, cx.observed())
}

fn park(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    (producer, namespace, how, returned_count): (Producer, &str, FirstBatch, u64),
    out: &DocWriter<'_>,
) -> Result<i64> {
    let generic = &request.generic;
    cx.server.metrics.cursors_opened.increment();
    let mut cursor = Box::new(OpenCursor {
        id: 0,
        producer,
        namespace: namespace.to_owned(),
        session: generic.lsid,
        txn_number: generic.transaction(),
        owner: cx.connection.user().cloned(),
        needs: Needs::of(cx.connection, &cx.command.access, request)?,
        no_timeout: how.no_timeout,
        tailable: how.tailable,
        await_data: how.await_data,
        returned_count,
        batch_count: 1,
        created_ms: crate::clock::wall_ms(),
        originating: Arc::new(cx.op.command()),
        plan_summary: cx.op.plan_summary().into(),
        encrypted: request.is_encrypted(),
        time_left: time_left(cx),
        api: Api {
            version: generic.api_version.map(str::to_owned),
            strict: generic.api_strict,
            deprecation_errors: generic.api_deprecation_errors,
        },
        query_stats: begin_query_stats(cx, request),
        charge: Charge::empty(cx.server.store.budget(), Pool::OpenCursors),
    });
    charge(cx, &mut cursor, out)?;
    cx.server.clients.cursors.park(cursor)
}

/// Charges the memory that a cursor keeps until its next batch. Code 146 if the budget has no capacity.
fn charge(cx: &Context<'_>, cursor: &mut OpenCursor, out: &DocWriter<'_>) -> Result<()> {
    cursor.producer.save();
    let grown = cx.before.grown(out, &cx.connection.charge);
    let bytes = cursor.charge.bytes().saturating_add_signed(grown);
    cx.server.clients.cursors.charge(cursor, bytes)
}

/// Writes `cursor: {nextBatch, id, ns}` for a checked-out cursor.
pub(crate) fn reply_next(
    cx: &mut Context<'_>,
    mut cursor: Box<OpenCursor>,
    count: Option<i64>,
    metrics: bool,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let id = cursor.id;
    // The time limit of a tailable cursor that awaits data applies to each getMore: it is how long the client wants to
    // wait.
    let carries_time = !(cursor.tailable && cursor.await_data);
    if carries_time && !cx.server.settings.fail_points.never_times_out() {
        cx.deadline = cursor.time_left.map(|left| clock::now() + left);
        cx.op.watch_waits(cx.deadline);
    }
    // For currentOp; later plans of the pipeline may change it.
    cx.op.set_plan_summary(&cursor.plan_summary);
    let count_max = count.filter(|n| *n > 0).map_or(u64::MAX, |n| n as u64);
    let before = match &mut cursor.producer {
        Producer::Query(execution) => {
            cx.done.change_stream = execution.is_change_stream();
            execution.stats()
        }
        Producer::List(_) => Default::default(),
    };
    let result = out.doc("cursor", |reply| -> Result<Filled> {
        cx.server.settings.fail_points.get_more()?;
        if (cx.deadline.is_some() || cx.await_until.is_some())
            && cx.server.settings.fail_points.always_times_out()
        {
            return Err(crate::interruption::interruption(nagi_error::Code::MAX_TIME_MS_EXPIRED));
        }
        // A small batch has no interrupt check of its own, and the time limit may have passed already.
        cx.check()?;
        let filled = reply.array("nextBatch", |batch| next(cx, &mut cursor, count_max, batch))?;
        put_token(&cursor.producer, reply);
        reply.put("id", if filled.exhausted { 0 } else { id });
        reply.put("ns", cursor.namespace.as_str());
        note_stats(cx, &mut cursor.producer);
        cx.done.keys_examined = cx.done.keys_examined.saturating_sub(before.keys_examined);
        cx.done.docs_examined = cx.done.docs_examined.saturating_sub(before.docs_examined);
        if metrics {
            put_metrics(cx, reply);
        }
        Ok(filled)
    });
    cx.op.set_plan_summary(&cursor.plan_summary);
    cx.done.originating = Some(Arc::clone(&cursor.originating));
    let filled = result.inspect_err(|_| cx.server.clients.cursors.finish(id))?;
    note_batch(cx, filled.count, id, filled.exhausted);
    if let Some(stats) = &mut cursor.query_stats {
        stats.add(&cx.observed());
    }
    cursor.returned_count += filled.count;
    cursor.batch_count += 1;
    if cursor.batch_count == 2 {
        cx.server.metrics.cursors_more_than_one_batch.increment();
    }
    match filled.exhausted {
        true => cx.server.clients.cursors.finish(id),
        false => {
            cursor.time_left = time_left(cx).filter(|_| carries_time);
            charge(cx, &mut cursor, out).inspect_err(|_| cx.server.clients.cursors.finish(id))?;
            cx.server.clients.cursors.put_back(cursor);
        }
    }
    Ok(())
}
