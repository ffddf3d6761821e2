//! Deletes from a time series collection: measurements are removed from their buckets.
//!
//! A bucket that may have measurements that match is read, and packed again without them; a bucket without measurements
//! is deleted. Each bucket is changed in a transaction of its own. Measurements that do not fit together (buckets of
//! other servers may have several types in a field) are divided among new buckets.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, Value, ValueBuf};
use nagi_error::{Code, Error, Result, bail};
use nagi_lang::{expr::Vars, filter::Filter};
use nagi_store::{Collection, RecordBuf, RecordId, Store, WriteTxn};
use nagi_timeseries::{
    Options,
    bucket::{Bucket, Refused, Shape, Unpacker, time_of},
};

use super::{How, Run, Selection, rest};
use crate::{
    conditions::{
        buckets::{hinted_key_of, on_buckets},
        series_index::for_plan,
    },
    plan::{self, FindSpec, Hint},
    source::{Cx, Env, renew},
};

/// The most measurements of a bucket that is packed again. Buckets have a thousand; a hostile one may have any number.
const COUNT_MAX: usize = 100_000;

/// Measurements between two interrupt checks.
const CHECK_EACH: usize = 64;

/// Deletes the measurements that match, or only the first one. Returns their number.
pub(super) fn delete(
    (store, env): (&Store, &Env<'_>),
    buckets: &Arc<Collection>,
    selection: &Selection<'_>,
    how: How,
    multi: bool,
) -> Result<u64> {
    run((store, env), buckets, selection, how, &mut |run, options| {
        let mut deleted = 0;
        for id in candidates(run, options)? {
            env.interrupt().check()?;
            let mut first = None;
            deleted +=
                run.with_txn(&mut |txn| without(txn, run, (options, &id), multi, &mut first))?;
            if deleted > 0 && !multi {
                break;
            }
        }
        run.show_delete(deleted);
        Ok(deleted)
    })
}

/// Deletes the first measurement that matches, and passes it to `show`.
pub(super) fn find_and_remove(
    (store, env): (&Store, &Env<'_>),
    buckets: &Arc<Collection>,
    selection: &Selection<'_>,
    how: How,
    show: &mut dyn FnMut(&Run<'_>, Doc<'_>) -> Result<()>,
) -> Result<u64> {
    run((store, env), buckets, selection, how, &mut |run, options| {
        let mut first = None;
        for id in candidates(run, options)? {
            env.interrupt().check()?;
            run.with_txn(&mut |txn| without(txn, run, (options, &id), false, &mut first))?;
            if let Some(first) = &first {
                show(run, first.as_doc())?;
                break;
            }
        }
        let deleted = u64::from(first.is_some());
        run.show_delete(deleted);
        Ok(deleted)
    })
}

/// Runs a statement on buckets.
fn run(
    (store, env): (&Store, &Env<'_>),
    buckets: &Arc<Collection>,
    selection: &Selection<'_>,
    how: How,
    statement: &mut dyn FnMut(&Run<'_>, &Options) -> Result<u64>,
) -> Result<u64> {
    let Some(options) = &buckets.options.timeseries else { return Ok(0) };
    let values = selection.lets.values();
    let vars = Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
    statement(
        &Run { store, collection: buckets.clone(), selection, vars: &vars, how, env },
        options,
    )
}

/// The condition on the buckets that may have measurements that match.
pub(crate) fn filter_of(buckets: &Collection, options: &Options, filter: &Filter) -> Filter {
    for_plan(buckets, on_buckets(options, filter), filter)
}

/// The buckets that may have measurements that match.
fn candidates(run: &Run<'_>, options: &Options) -> Result<Vec<RecordId>> {
    let Run { store, ref collection, vars, env, .. } = *run;
    // The snapshot first: what is known of its buckets must not be older.
    let snapshot = store.snapshot()?;
    let filter = Arc::new(filter_of(collection, options, &run.selection.filter));
    let mut cx = Cx { store, reader: snapshot.reader(), vars, env };
    let key = hinted_key_of(options, run.selection.hint)?;
    let hint = key.as_ref().map(|key| Hint::Key(key.as_doc())).or(run.selection.hint);
    let spec = FindSpec::new(Some(collection.clone()), filter);
    let spec = FindSpec { needed: Some(Vec::new()), hint, ..spec };
    let mut plan = plan::plan(&spec, &mut cx)?;
    let mut source = plan.start_top(env);
    let ids = rest(&mut *source, &mut cx);
    env.note_run(&plan, &mut *source);
    ids
}

/// Packs a bucket again without the measurements that match. Returns how many these are, and `first` gets the first.
fn without(
    txn: &mut WriteTxn<'_>,
    run: &Run<'_>,
    (options, id): (&Options, &RecordId),
    multi: bool,
    first: &mut Option<DocBuf>,
) -> Result<u64> {
    *first = None;
    txn.lock(&run.collection, id.key())?;
    let mut buf = RecordBuf::default();
    let Some(found) = txn.reader().record(&run.collection, id.key(), &mut buf)? else {
        return Ok(0);
    };
    run.env.changing(found.len())?;
    let old = found.to_buf();
    let mut packed = Packed::begin(old.as_doc(), options)?;
    let mut unpacker = Unpacker::new(old.as_doc(), &Shape::of(options))?;
    let (mut measurement, mut arena) = (Vec::new(), Bump::new());
    let (mut deleted, mut count) = (0, 0);
    while unpacker.append(&mut measurement)? {
        count += 1;
        if count % CHECK_EACH == 0 {
            run.env.interrupt().check()?;
        }
        if count > COUNT_MAX {
            bail!(Code::BAD_VALUE, "A bucket has more than {COUNT_MAX} measurements")
        }
        renew(&mut arena);
        let doc = Doc::trusted(&measurement);
        if (multi || deleted == 0) && run.matching(doc, &arena)?.is_some() {
            deleted += 1;
            first.get_or_insert_with(|| doc.to_buf());
        } else {
            packed.add(txn, doc, options)?;
        }
        measurement.clear();
    }
    if deleted > 0 {
        packed.store(txn, run, (id, old.as_doc()), options)?;
    }
    Ok(deleted)
}

/// The measurements that stay. The first bucket has the place of the old one.
struct Packed {
    buckets: Vec<Bucket>,
}

impl Packed {
    fn begin(old: Doc<'_>, options: &Options) -> Result<Packed> {
        let control = old.get("control").as_doc().unwrap_or(Doc::EMPTY);
        let min = control.get("min").as_doc().unwrap_or(Doc::EMPTY);
        let (Value::ObjectId(id), Value::DateTime(begin)) =
            (old.get("_id"), min.get(&options.time_field))
        else {
            bail!(Code::BAD_VALUE, "A bucket has no ObjectId, or no earliest time")
        };
        let meta = Some(old.get("meta")).filter(|meta| !meta.is_missing()).map(ValueBuf::new);
        Ok(Packed { buckets: vec![Bucket::renewed(*id, begin, meta)] })
    }

    fn add(&mut self, txn: &WriteTxn<'_>, doc: Doc<'_>, options: &Options) -> Result<()> {
        let time = time_of(doc, options)?;
        let mut refused = Some(Refused::Count);
        for bucket in &mut self.buckets {
            refused = bucket.add(doc, time, options).err();
            if refused.is_none() {
                break;
            }
        }
        if refused.is_some() {
            let meta = self.buckets[0].meta().cloned();
            let new_id = |seconds| txn.store().new_id(seconds);
            let mut bucket = Bucket::new(time, meta, options, &new_id);
            if bucket.add(doc, time, options).is_err() {
                return Err(Error::bug("a new bucket refuses its first measurement"));
            }
            self.buckets.push(bucket);
        }
        Ok(())
    }

    fn store(
        &mut self,
        txn: &mut WriteTxn<'_>,
        run: &Run<'_>,
        (id, old): (&RecordId, Doc<'_>),
        options: &Options,
    ) -> Result<()> {
        let mut buckets = self.buckets.iter_mut();
        match buckets.next().filter(|first| first.count() > 0) {
            None => txn.delete(&run.collection, id.key(), old)?,
            Some(first) => {
                let new = first.to_doc(options)?;
                txn.update(&run.collection, id.key(), old, new.as_doc())?;
            }
        }
        for other in buckets {
            txn.insert(&run.collection, other.to_doc(options)?.as_doc())?;
        }
        Ok(())
    }
}
