//! Inserts into a time series collection: measurements become part of buckets.
//!
//! ```text
//!   measurement -> normalized metadata -> bucket of this statement | open bucket | stored bucket | new bucket
//! ```
//!
//! A statement reads each bucket that it adds to, adds all measurements that belong there, and writes it once, in the
//! transaction of the statement: two statements that add to the same bucket conflict, and one of them begins again. A
//! bucket that refuses a measurement (it is full, or the type of a field has changed) is closed.
//!
//! Stored buckets are found by the index on metadata and time, as in MongoDB; without it, a bucket that is not known
//! as open gets no more measurements.

use std::collections::HashMap;
use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, ValueBuf};
use nagi_error::{Error, Result, err};
use nagi_lang::{
    filter::{CompareOp, Filter, Pred},
    path::FieldPath,
};
use nagi_store::{Collection, DOCUMENT_DEPTH_MAX, RecordBuf, WriteTxn};
use nagi_timeseries::{
    Options,
    bucket::{Bucket, Refused, normalized, time_of},
};

use super::{
    ends_command,
    insert::{InsertOutcome, InsertStatement},
    open_buckets::{OpenBuckets, Unpacked},
};
use crate::{
    plan::{self, FindSpec},
    source::{Cx, Env},
};

/// The levels by which the ranges of a bucket nest deeper than its measurements.
const CONTROL_DEPTH: usize = 2;

/// The most stored buckets that are examined for one measurement. There are more only if most are full.
const REOPENED_MAX: usize = 16;

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
    /// The document as it is stored; none for a new bucket.
    stored: Option<DocBuf>,
    added: bool,
    /// True if it takes no more measurements.
    closed: bool,
}

/// A bucket that a transaction has read or written.
struct Seen {
    meta: Option<ValueBuf>,
    unpacked: Unpacked,
    added: bool,
    closed: bool,
}

/// The effect of a transaction on the open buckets, applied after its commit.
#[derive(Default)]
pub(super) struct Opened(Vec<Seen>);

impl Opened {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn apply(self, buckets: &Collection) {
        let open = buckets.write_annotations().get_or_make::<OpenBuckets>();
        for seen in self.0 {
            let id = *seen.unpacked.bucket.id();
            if seen.closed {
                open.forget(&seen.meta, id);
                continue;
            }
            if seen.added {
                open.note(&seen.meta, id);
            }
            open.hold(seen.unpacked);
        }
    }
}

/// What the insertion of measurements works with.
pub(super) struct Series<'s> {
    pub(super) buckets: &'s Arc<Collection>,
    pub(super) options: &'s Options,
    pub(super) env: &'s Env<'s>,
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
    match txn.attempt(|txn| store_all(txn, series, &valid, &mut done)) {
        Ok(()) => {
            outcome.count += valid.len() as u64;
            opened.0.append(&mut done.0);
        }
        Err(error) if ends_command(&error) => return Err(error),
        Err(error) if valid.len() == 1 => outcome.errors.insert(0, (valid[0].at, error)),
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
        let mut done = Opened::default();
        match txn.attempt(|txn| store_all(txn, series, std::slice::from_ref(one), &mut done)) {
            Ok(()) => {
                outcome.count += 1;
                opened.0.append(&mut done.0);
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
    let meta = options.meta_field.as_deref().map_or(Value::Missing, |name| doc.get(name));
    let meta = (!meta.is_missing()).then(|| normalized(meta));
    let doc = doc.to_buf();
    Ok(Measurement { at, doc, time, meta })
}

fn too_deep() -> Error {
    err!(
        nagi_error::Code::OVERFLOW,
        "cannot insert document because it exceeds {} levels of nesting",
        DOCUMENT_DEPTH_MAX - CONTROL_DEPTH
    )
}

/// Stores measurements, all or none.
fn store_all(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    measurements: &[Measurement],
    opened: &mut Opened,
) -> Result<()> {
    let mut by_meta: HashMap<&Option<ValueBuf>, Vec<Work>> = HashMap::new();
    // The order of the first measurements, so that equal statements write in an equal order.
    let mut metas = Vec::new();
    for one in measurements {
        series.env.interrupt().check()?;
        let works = match by_meta.get_mut(&one.meta) {
            Some(works) => works,
            None => {
                metas.push(&one.meta);
                let open = open_buckets(txn, series, one)?;
                by_meta.entry(&one.meta).or_insert(open)
            }
        };
        if add(works, one, series.options) {
            continue;
        }
        // Where a bucket has just been closed, the others are full, too.
        let spans = |work: &Work| series.options.spans(work.bucket.begin(), one.time);
        let found = match works.iter().any(|work| work.closed && spans(work)) {
            true => None,
            false => reopened(txn, series, one, works)?,
        };
        if let Some(found) = found {
            works.insert(0, found);
            if add(works, one, series.options) {
                continue;
            }
        }
        let store = txn.store();
        let new_id = |seconds| store.new_id(seconds);
        let bucket = Bucket::new(one.time, one.meta.clone(), series.options, &new_id);
        works.insert(0, Work { bucket, stored: None, added: false, closed: false });
        if !add(works, one, series.options) {
            return Err(Error::bug("a new bucket refuses its first measurement"));
        }
    }
    for meta in metas {
        for mut work in by_meta.remove(meta).into_iter().flatten().rev() {
            let written = write(txn, series, &mut work)?;
            let Work { bucket, stored, added, closed } = work;
            if let Some(stored) = written.or(stored) {
                let unpacked = Unpacked { bucket, stored };
                opened.0.push(Seen { meta: meta.clone(), unpacked, added, closed });
            }
        }
    }
    Ok(())
}

/// Adds a measurement to the first bucket that takes it.
fn add(works: &mut [Work], one: &Measurement, options: &Options) -> bool {
    for work in works.iter_mut().filter(|work| !work.closed) {
        match work.bucket.add(one.doc.as_doc(), one.time, options) {
            Ok(()) => {
                work.added = true;
                return true;
            }
            // The bucket may still be the right one for other times.
            Err(Refused::Earlier | Refused::Later) => {}
            Err(Refused::Count | Refused::Size | Refused::Schema) => work.closed = true,
        }
    }
    false
}

/// Reads the buckets that are known to be open.
fn open_buckets(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    one: &Measurement,
) -> Result<Vec<Work>> {
    let known = series.buckets.write_annotations().get_or_make::<OpenBuckets>();
    let mut works = Vec::new();
    for id in known.of(&one.meta) {
        match read(txn, series, id, one)? {
            Some(work) => works.push(work),
            None => known.forget(&one.meta, id),
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
    let Some(record) = txn.reader().find_id(series.buckets, Value::ObjectId(&id))? else {
        return Ok(None);
    };
    txn.lock(series.buckets, record.key())?;
    let mut buf = RecordBuf::default();
    let Some(found) = txn.reader().record(series.buckets, record.key(), &mut buf)? else {
        return Ok(None);
    };
    series.env.changing(found.len())?;
    let known = series.buckets.write_annotations().get_or_make::<OpenBuckets>();
    if let Some(Unpacked { bucket, stored }) = known.take(&id)
        && stored.as_bytes() == found.as_bytes()
        && bucket.meta() == one.meta.as_ref()
    {
        return Ok(Some(Work { bucket, stored: Some(stored), added: false, closed: false }));
    }
    let stored = found.to_buf();
    // A bucket that cannot be read is left as it is.
    let Ok(Some(bucket)) = Bucket::open(stored.as_doc(), series.options) else { return Ok(None) };
    if bucket.meta() != one.meta.as_ref() {
        return Ok(None);
    }
    Ok(Some(Work { bucket, stored: Some(stored), added: false, closed: false }))
}

/// Finds the stored bucket for a measurement, if there is an index for that, and none of `works` is it.
fn reopened(
    txn: &mut WriteTxn<'_>,
    series: &Series<'_>,
    one: &Measurement,
    works: &[Work],
) -> Result<Option<Work>> {
    let time = &*series.options.time_field;
    let path = format!("control.min.{time}");
    let serves = |index: &nagi_store::Index| {
        let fields: Vec<_> = index.spec.key_fields().map(|(name, _)| name).take(2).collect();
        let whole = index.spec.partial.is_none() && !index.spec.sparse && !index.spec.hidden;
        whole && fields == ["meta", &*path]
    };
    if !series.buckets.ready_indexes().any(|index| serves(index)) {
        return Ok(None);
    }
    let compare = |path: &str, op, value: Value<'_>| Filter::Field {
        path: FieldPath::new(path),
        pred: Pred::Compare { op, value: value.into(), collation: None },
    };
    let earliest = one.time.saturating_sub(i64::from(series.options.span) * 1000);
    let meta = one.meta.as_ref().map_or(Value::Null, ValueBuf::value);
    let filter = Filter::And(vec![
        compare("meta", CompareOp::Eq, meta),
        compare(&path, CompareOp::Lte, Value::DateTime(one.time)),
        compare(&path, CompareOp::Gt, Value::DateTime(earliest)),
    ]);
    let id = {
        let lets = Vec::new();
        let vars = nagi_lang::expr::Vars::with_system(&lets, series.env.system());
        let reader = txn.reader();
        let mut cx = Cx { store: txn.store(), reader, vars: &vars, env: series.env };
        let spec = FindSpec::new(Some(series.buckets.clone()), Arc::new(filter.normalize()));
        let mut source = plan::plan(&spec, &mut cx)?.start_top(series.env);
        let (mut found, mut examined) = (None, 0);
        while found.is_none() && examined < REOPENED_MAX && source.advance(&mut cx)? {
            examined += 1;
            found = candidate(source.doc(), one, works);
        }
        found
    };
    match id {
        Some(id) => read(txn, series, id, one),
        None => Ok(None),
    }
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

/// Writes a bucket that has got measurements. Returns the document.
fn write(txn: &mut WriteTxn<'_>, series: &Series<'_>, work: &mut Work) -> Result<Option<DocBuf>> {
    if !work.added {
        return Ok(None);
    }
    let new = work.bucket.to_doc(series.options)?;
    match &work.stored {
        None => drop(txn.insert(series.buckets, new.as_doc())?),
        Some(old) => {
            let id = Value::ObjectId(work.bucket.id());
            match txn.reader().find_id(series.buckets, id)? {
                Some(record) => {
                    txn.update(series.buckets, record.key(), old.as_doc(), new.as_doc())?;
                }
                None => return Err(Error::bug("a locked bucket is gone")),
            }
        }
    }
    Ok(Some(new))
}
