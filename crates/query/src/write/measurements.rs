//! Inserts into a time series collection: measurements become part of buckets.
//!
//! ```text
//!   measurement -> normalized metadata -> bucket of this statement | open bucket | stored bucket | new bucket
//! ```
//!
//! A statement groups its measurements by their metadata. For each group it reads the open buckets of the metadata,
//! the latest first and no more than it needs, adds the measurements, and writes each bucket once, in the transaction
//! of the statement: two statements that add to the same bucket conflict, and one of them begins again. A
//! bucket that refuses a measurement (it is full, or the type of a field has changed) is closed. Unless its count says
//! it, the stored bucket says so (`control.closed`), as in MongoDB: it is not tried again.
//!
//! Stored buckets are found by the index on metadata and time, as in MongoDB, the latest first; without it, a bucket
//! that is not known as open gets no more measurements.

use std::{cell::RefCell, sync::Arc};

use foldhash::HashMap;
use nagi_bson::{Doc, DocBuf, Value, ValueBuf};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_lang::{
    filter::{CompareOp, Filter, Pred},
    path::FieldPath,
    sort::SortSpec,
};
use nagi_store::{Collection, DOCUMENT_DEPTH_MAX, RecordBuf, RecordId, WriteTxn};
use nagi_timeseries::{
    Options,
    bucket::{BYTES_MAX, Bucket, COUNT_MIN, FIELDS_MAX, Refused, normalized, time_of},
};

use super::{
    ends_command,
    insert::{InsertOutcome, InsertStatement},
    open_buckets::{OpenBuckets, Unpacked},
    series_counts::{Event, Tally, count, count_one},
};
use crate::{
    plan::{self, FindSpec, Hint},
    source::{Cx, Env},
};

/// The levels by which the ranges of a bucket nest deeper than its measurements.
const CONTROL_DEPTH: usize = 2;

/// The most stored buckets that are examined for one measurement. There are more only if most are full.
const REOPENED_MAX: usize = 16;

/// The memory of the buckets that one transaction keeps unpacked for those after it.
const UNPACKED_BYTES_MAX: usize = 32 << 20;

/// A measurement that is to be inserted.
struct Measurement {
    /// Its position in the statement.
    at: usize,
    doc: DocBuf,
    time: i64,
    meta: Option<ValueBuf>,
}

/// A bucket that a statement adds to.
struct Work {
    bucket: Bucket,
    /// The record and the document as it is stored; none for a new bucket.
    stored: Option<(RecordId, DocBuf)>,
    added: bool,
    /// True if it takes no more measurements.
    closed: bool,
    /// True if the stored bucket has to say so.
    sealed: bool,
    /// Why it did not take the last measurement.
    refused: Option<Refused>,
    /// The measurements that it took.
    taken: u64,
}

impl Work {
    fn new(bucket: Bucket, stored: Option<(RecordId, DocBuf)>) -> Work {
        Work { bucket, stored, added: false, closed: false, sealed: false, refused: None, taken: 0 }
    }

    /// Adds a measurement; false if it does not take it.
    fn add(&mut self, one: &Measurement, options: &Options, into: Into) -> bool {
        if self.closed {
            return false;
        }
        let begin = self.bucket.begin();
        let added = match into {
            Into::New if self.stored.is_some() && one.time < begin => Err(Refused::Earlier),
            Into::New if self.stored.is_some() && options.spans(begin, one.time) => {
                Err(Refused::Size)
            }
            _ => self.bucket.add(one.doc.as_doc(), one.time, options),
        };
        self.refused = added.err();
        match added {
            Ok(()) => (self.added, self.taken) = (true, self.taken + 1),
            // The bucket may still be the right one for other times.
            Err(Refused::Earlier | Refused::Later) => {}
            Err(Refused::Count) => self.closed = true,
            Err(Refused::Size | Refused::Schema) => (self.closed, self.sealed) = (true, true),
        }
        added.is_ok()
    }

    /// Counts what was written.
    fn tell(&self, tally: &mut Tally) {
        if !self.added {
            return;
        }
        let stored = if self.stored.is_some() { Event::Updated } else { Event::Inserted };
        tally.add(stored, 1);
        tally.add(Event::Committed, 1);
        tally.add(Event::Measured, self.taken);
        let large = self.bucket.bytes() > BYTES_MAX && self.bucket.count() < COUNT_MIN;
        if large && !self.closed {
            tally.add(Event::KeptForLargeMeasurements, 1);
        }
    }
}

/// Where measurements go.
#[derive(Clone, Copy)]
enum Into {
    Any,
    /// Stored buckets of their times are closed: one of them became too large.
    New,
}

/// A bucket that a transaction has read or written.
struct Seen {
    meta: Option<ValueBuf>,
    id: [u8; 12],
    /// None if the transaction has too many.
    unpacked: Option<Unpacked>,
    added: bool,
    closed: bool,
}

/// The effect of a transaction on the open buckets, applied after its commit.
#[derive(Default)]
pub(super) struct Opened {
    seen: Vec<Seen>,
    /// The memory of the unpacked ones.
    unpacked_bytes: usize,
    tally: Tally,
}

impl Opened {
    pub(super) fn clear(&mut self) {
        self.seen.clear();
        self.unpacked_bytes = 0;
        self.tally.clear();
    }

    fn append(&mut self, mut other: Opened) {
        self.seen.append(&mut other.seen);
        self.unpacked_bytes += other.unpacked_bytes;
        self.tally.append(other.tally);
    }

    /// Notes a bucket as it is stored after the transaction.
    fn see(&mut self, meta: Option<&ValueBuf>, work: Work, record: RecordId, stored: DocBuf) {
        let Work { bucket, added, closed, .. } = work;
        let id = *bucket.id();
        let mut unpacked = (!closed).then_some(Unpacked { bucket, record, stored });
        let bytes = unpacked.as_mut().map_or(0, Unpacked::shrink);
        if self.unpacked_bytes + bytes > UNPACKED_BYTES_MAX {
            unpacked = None;
        } else {
            self.unpacked_bytes += bytes;
        }
        self.seen.push(Seen { meta: meta.cloned(), id, unpacked, added, closed });
    }

    pub(super) fn apply(self, buckets: &Collection) {
        count(buckets, &self.tally);
        let open = buckets.write_annotations().get_or_make::<OpenBuckets>();
        for seen in self.seen {
            if seen.closed {
                open.forget(&seen.meta, seen.id);
                continue;
            }
            if seen.added {
                open.note(&seen.meta, seen.id);
            }
            if let Some(unpacked) = seen.unpacked {
                open.hold(unpacked);
            }
        }
    }
}

/// What the insertion of measurements works with.
pub(super) struct Series<'s> {
    pub(super) buckets: &'s Arc<Collection>,
    pub(super) options: &'s Options,
    pub(super) env: &'s Env<'s>,
    /// For buckets that are read: as large as the largest one, because the engine reads again what does not fit.
    pub(super) buf: RefCell<RecordBuf>,
}

/// Inserts the documents of a statement, as one attempt of its transaction.
pub(super) fn attempt(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    statement: &InsertStatement<'_>,
    opened: &mut Opened,
) -> Result<InsertOutcome> {
    let mut outcome = InsertOutcome::default();
    let mut valid = Vec::new();
    for (at, doc) in statement.docs.iter().enumerate() {
        if statement.is_done(at) {
            outcome.count += 1;
            continue;
        }
        match measurement(txn, series.options, (at, *doc), statement.keep_empty_timestamps) {
            Ok(measurement) => valid.push(measurement),
            Err(error) => {
                outcome.errors.push((at, error));
                if statement.ordered {
                    break;
                }
            }
        }
    }
    if let (Some(first), Some(statement)) = (valid.first(), statement.statement) {
        txn.store().client().set_statement(Some(statement(first.at)));
    }
    let mut done = Opened::default();
    match txn.attempt(|txn| store_all(txn, series, &valid, Into::Any, &mut done)) {
        Ok(()) => {
            outcome.count += valid.len() as u64;
            opened.append(done);
        }
        Err(error) if ends_command(&error) => return Err(error),
        Err(error) if valid.len() == 1 && error.code() != Code::BSON_OBJECT_TOO_LARGE => {
            outcome.errors.insert(0, (valid[0].at, error));
        }
        // A bucket cannot be stored: it is not known which measurement is the reason.
        Err(_) => one_by_one(txn, series, &valid, (statement.ordered, opened), &mut outcome)?,
    }
    outcome.errors.sort_by_key(|(at, _)| *at);
    if statement.ordered {
        outcome.errors.truncate(1);
    }
    Ok(outcome)
}

fn one_by_one(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    valid: &[Measurement],
    (ordered, opened): (bool, &mut Opened),
    outcome: &mut InsertOutcome,
) -> Result<()> {
    for one in valid {
        let one_only = std::slice::from_ref(one);
        let mut done = Opened::default();
        let mut stored = txn.attempt(|txn| store_all(txn, series, one_only, Into::Any, &mut done));
        if stored.as_ref().is_err_and(|error| error.code() == Code::BSON_OBJECT_TOO_LARGE) {
            done.clear();
            stored = txn.attempt(|txn| store_all(txn, series, one_only, Into::New, &mut done));
        }
        match stored {
            Ok(()) => {
                outcome.count += 1;
                opened.append(done);
            }
            Err(error) if ends_command(&error) => return Err(error),
            Err(error) => {
                outcome.errors.push((one.at, error));
                if ordered {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Checks a document, and gives it an `_id`.
fn measurement(
    txn: &WriteTxn<'_>,
    options: &Options,
    (at, doc): (usize, Doc<'_>),
    keep_empty_timestamps: bool,
) -> Result<Measurement> {
    let mut rewritten = Vec::new();
    let doc = txn.store().prepared(doc, keep_empty_timestamps, &mut rewritten)?;
    let time = time_of(doc, options)?;
    if doc.is_deeper_than(DOCUMENT_DEPTH_MAX - CONTROL_DEPTH) {
        return Err(too_deep());
    }
    if doc.len() > FIELDS_MAX && doc.iter().count() > FIELDS_MAX {
        bail!(Code::BAD_VALUE, "A measurement must not have more than {FIELDS_MAX} fields");
    }
    let meta = options.meta_field.as_deref().map_or(Value::Missing, |name| doc.get(name));
    let meta = (!meta.is_missing()).then(|| normalized(meta));
    let doc = doc.to_buf();
    Ok(Measurement { at, doc, time, meta })
}

fn too_deep() -> Error {
    err!(
        Code::OVERFLOW,
        "cannot insert document because it exceeds {} levels of nesting",
        DOCUMENT_DEPTH_MAX - CONTROL_DEPTH
    )
}

/// Stores measurements, all or none.
fn store_all(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    measurements: &[Measurement],
    into: Into,
    opened: &mut Opened,
) -> Result<()> {
    for group in &by_metadata(measurements) {
        series.env.interrupt().check()?;
        let works = place(txn, series, group, into, &mut opened.tally)?;
        for mut work in works.into_iter().rev() {
            let written = write(txn, series, &mut work)?;
            work.tell(&mut opened.tally);
            if let Some((record, stored)) = written.or_else(|| work.stored.take()) {
                opened.see(group[0].meta.as_ref(), work, record, stored);
            }
        }
    }
    Ok(())
}

/// Measurements with equal metadata together: groups in the order of their first ones, so that equal statements write
/// in an equal order. None is empty.
fn by_metadata(measurements: &[Measurement]) -> Vec<Vec<&Measurement>> {
    let mut groups: Vec<Vec<&Measurement>> = Vec::new();
    let mut places: HashMap<&Option<ValueBuf>, usize> = HashMap::default();
    for one in measurements {
        let place = *places.entry(&one.meta).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(one);
    }
    groups
}

/// Adds measurements with the same metadata to buckets.
fn place(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    group: &[&Measurement],
    into: Into,
    tally: &mut Tally,
) -> Result<Vec<Work>> {
    let mut works: Vec<Work> = Vec::new();
    let known = series.buckets.write_annotations().get_or_make::<OpenBuckets>();
    let mut unread = group.first().map_or(Vec::new(), |one| known.of(&one.meta)).into_iter();
    for one in group {
        if works.iter_mut().any(|work| work.add(one, series.options, into)) {
            continue;
        }
        let mut added = false;
        while !added && let Some(id) = unread.next() {
            match read(txn, series, id, one)? {
                Some(mut work) => {
                    added = work.add(one, series.options, into);
                    works.push(work);
                }
                None => known.forget(&one.meta, id),
            }
        }
        // Where a bucket has just been closed, the others are full, too.
        let spans = |work: &Work| series.options.spans(work.bucket.begin(), one.time);
        let is_closed = works.iter().any(|work| work.closed && spans(work));
        if added || !is_closed && reopen(txn, series, one, (&mut works, into))? {
            continue;
        }
        tally.add_begun(works.iter().filter_map(|work| work.refused));
        let store = txn.store();
        let new_id = |seconds| store.new_id(seconds);
        let bucket = Bucket::new(one.time, one.meta.clone(), series.options, &new_id);
        works.insert(0, Work::new(bucket, None));
        if !works[0].add(one, series.options, into) {
            return Err(Error::bug("a new bucket refuses its first measurement"));
        }
    }
    Ok(works)
}

/// Reads a bucket, and locks it. None if it does not exist, has other metadata, or takes no more measurements.
fn read(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    id: [u8; 12],
    one: &Measurement,
) -> Result<Option<Work>> {
    let known = series.buckets.write_annotations().get_or_make::<OpenBuckets>();
    let mut buf = series.buf.borrow_mut();
    if let Some(Unpacked { bucket, record, stored }) = known.take(&id) {
        txn.lock(series.buckets, record.key())?;
        let found = txn.reader().record(series.buckets, record.key(), &mut buf)?;
        if found.is_some_and(|found| found.as_bytes() == stored.as_bytes())
            && bucket.meta() == one.meta.as_ref()
        {
            series.env.changing(stored.as_bytes().len())?;
            return Ok(Some(Work::new(bucket, Some((record, stored)))));
        }
    }
    let Some(record) = txn.reader().find_id(series.buckets, Value::ObjectId(&id))? else {
        count_one(series.buckets, Event::FetchFailed);
        return Ok(None);
    };
    txn.lock(series.buckets, record.key())?;
    let Some(found) = txn.reader().record(series.buckets, record.key(), &mut buf)? else {
        return Ok(None);
    };
    series.env.changing(found.len())?;
    let stored = found.to_buf();
    count_one(series.buckets, Event::Fetched);
    // A bucket that cannot be read is left as it is.
    let Ok(Some(bucket)) = Bucket::open(stored.as_doc(), series.options) else {
        count_one(series.buckets, Event::ReopeningFailed);
        return Ok(None);
    };
    if bucket.meta() != one.meta.as_ref() {
        return Ok(None);
    }
    Ok(Some(Work::new(bucket, Some((record, stored)))))
}

/// Adds a measurement to a stored bucket that is none of `works`, if there is one that takes it, and an index by which
/// it is found. The buckets that are read become part of `works`.
fn reopen(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    one: &Measurement,
    (works, into): (&mut Vec<Work>, Into),
) -> Result<bool> {
    let found = candidates(txn, series, one, works)?;
    let event = if found.is_empty() { Event::QueryFailed } else { Event::Queried };
    count_one(series.buckets, event);
    for id in found {
        if let Some(work) = read(txn, series, id, one)? {
            works.insert(0, work);
            if works[0].add(one, series.options, into) {
                count_one(series.buckets, Event::Reopened);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The stored buckets that may take a measurement, except `works`: the latest first.
fn candidates(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    one: &Measurement,
    works: &[Work],
) -> Result<Vec<[u8; 12]>> {
    let time = &*series.options.time_field;
    let path = format!("control.min.{time}");
    let serves = |index: &nagi_store::Index| {
        let fields: Vec<_> = index.spec.key_fields().map(|(name, _)| name).take(2).collect();
        let whole = index.spec.partial.is_none() && !index.spec.sparse && !index.spec.hidden;
        whole && fields == ["meta", &*path]
    };
    let Some(index) = series.buckets.ready_indexes().find(|index| serves(index)) else {
        return Ok(Vec::new());
    };
    // Metadata that only the collation takes for the same is sorted out later.
    let collation = index.spec.collation;
    let compare = |path: &str, op, value: Value<'_>| Filter::Field {
        path: FieldPath::new(path),
        pred: Pred::Compare { op, value: value.into(), collation },
    };
    let earliest = one.time.saturating_sub(i64::from(series.options.span) * 1000);
    let meta = one.meta.as_ref().map_or(Value::Null, ValueBuf::value);
    let filter = Filter::And(vec![
        compare("meta", CompareOp::Eq, meta),
        compare(&path, CompareOp::Lte, Value::DateTime(one.time)),
        compare(&path, CompareOp::Gt, Value::DateTime(earliest)),
    ]);
    let latest_first = DocBuf::build(|out| out.put(&path, -1));
    let sort = SortSpec::parse(latest_first.as_doc())?.collated(collation);
    let lets = Vec::new();
    let vars = nagi_lang::expr::Vars::with_system(&lets, series.env.system());
    let reader = txn.reader();
    let mut cx = Cx { store: txn.store(), reader, vars: &vars, env: series.env };
    let spec = FindSpec {
        sort: Some(Arc::new(sort)),
        hint: Some(Hint::Name(index.name())),
        ..FindSpec::new(Some(series.buckets.clone()), Arc::new(filter.normalize()))
    };
    let mut source = plan::plan(&spec, &mut cx)?.start_top(series.env);
    let (mut found, mut examined) = (Vec::new(), 0);
    while examined < REOPENED_MAX && source.advance(&mut cx)? {
        examined += 1;
        found.extend(candidate(source.doc(), one, works));
    }
    Ok(found)
}

/// The id of a stored bucket that may take more measurements.
fn candidate(bucket: Doc<'_>, one: &Measurement, works: &[Work]) -> Option<[u8; 12]> {
    // An array as metadata is found by its elements, too.
    let meta = Some(bucket.get("meta")).filter(|meta| !meta.is_missing()).map(ValueBuf::new);
    if meta != one.meta {
        return None;
    }
    let Value::ObjectId(id) = bucket.get("_id") else { return None };
    let control = bucket.get("control").as_doc()?;
    let count = nagi_bson::number::truncate_to_i64(control.get("count")).unwrap_or(0);
    let full = count >= nagi_timeseries::bucket::COUNT_MAX as i64;
    let known = works.iter().any(|work| work.bucket.id() == id);
    (!full && !known && !control.get("closed").is_truthy()).then_some(*id)
}

/// Refuses a new bucket that is too large to be stored: it has one measurement, and a client does not know the size of
/// the bucket.
fn check_size(bucket: Doc<'_>) -> Result<()> {
    let len = bucket.len();
    if len > nagi_bson::DOC_BYTES_MAX {
        bail!(
            Code::BAD_VALUE,
            "The measurement is too large for a time series: its bucket contains each value three times and would have \
             {len} bytes, more than {}",
            nagi_bson::DOC_BYTES_MAX
        );
    }
    Ok(())
}

/// Writes a bucket that has got measurements, or has to be closed. Returns its record and the document.
fn write(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    work: &mut Work,
) -> Result<Option<(RecordId, DocBuf)>> {
    let mut new = match &work.stored {
        Some((_, stored)) if !work.added && work.sealed => stored.clone(),
        _ if !work.added => return Ok(None),
        _ => work.bucket.to_doc(series.options)?,
    };
    if work.sealed {
        new = closed(new.as_doc());
    }
    let record = match &work.stored {
        None => {
            check_size(new.as_doc())?;
            txn.insert(series.buckets, new.as_doc())?
        }
        Some((record, old)) => {
            txn.update(series.buckets, record.key(), old.as_doc(), new.as_doc())?;
            record.clone()
        }
    };
    Ok(Some((record, new)))
}

/// The bucket, closed.
fn closed(bucket: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for field in bucket {
            match (field.name(), field.value()) {
                ("control", Value::Doc(control)) => out.doc("control", |out| {
                    out.extend(control);
                    out.put("closed", true);
                }),
                (name, value) => out.put(name, value),
            }
        }
    })
}
