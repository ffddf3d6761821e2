//! `insert`: stores documents, in transactions of at most 500 documents or 128 KiB, those of measurements larger.
//!
//! In a transaction each document is an attempt of its own, so a duplicate key leaves the others in place. A caller
//! that records its result in the same transaction (a retryable write) calls [`try_insert`] and [`prepare_target`]
//! alternately; [`insert`] combines both for all other callers.

use std::{cell::RefCell, sync::Arc};

use foldhash::HashSet;
use nagi_bson::Doc;
use nagi_error::{Code, Error, Result, err};
use nagi_store::{Collection, Durability, Namespace, Statement, Store, WriteTxn};
use nagi_timeseries::Options;

use super::{
    How, ends_command,
    measurements::{self, Opened, Series},
    open_buckets::OpenBuckets,
    turns::{Lanes, Turns},
    with_txn,
};
use crate::{encrypted::Encryption, source::Env};

/// Limits of documents and bytes of one transaction. More would save little, and what is staged would leave the
/// processor's second-level cache.
const CHUNK_MAX: (usize, usize) = (500, 128 << 10);

/// The same for measurements: each transaction writes the buckets that it adds to as a whole, so the more measurements
/// it has of the same metadata, the less each of them costs.
const SERIES_CHUNK_MAX: (usize, usize) = (10_000, 4 << 20);

/// The most different metadata in one transaction, whose buckets are staged until it is committed.
const METAS_MAX: usize = 1000;

/// The documents of one transaction, and how to insert them.
#[derive(Clone, Copy)]
pub struct InsertStatement<'a> {
    pub docs: &'a [Doc<'a>],
    /// The statement stops at the first error.
    pub ordered: bool,
    /// The documents that an earlier attempt has inserted, by position; empty: none.
    pub done: &'a [bool],
    /// The statement of the session for each document, by its position in `docs`.
    pub statement: Option<&'a dyn Fn(usize) -> Statement>,
    pub durability: Durability,
    pub bypass_validation: bool,
    /// Empty timestamps at the top level are stored as they are.
    pub keep_empty_timestamps: bool,
    /// Converts the insert payloads of encrypted fields. Its state collections exist.
    pub encryption: Option<&'a Encryption>,
}

/// The outcome of an insert.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// Number of documents inserted.
    pub count: u64,
    /// Errors by position in `docs`.
    pub errors: Vec<(usize, Error)>,
}

impl InsertStatement<'_> {
    /// The number of these documents that make up one statement. `series`: they are measurements of this time series.
    pub fn chunk_count(docs: &[Doc<'_>], series: Option<&Options>) -> usize {
        let (count_max, bytes_max) = if series.is_some() { SERIES_CHUNK_MAX } else { CHUNK_MAX };
        let (mut bytes, mut metas) = (0, HashSet::<&[u8]>::default());
        let meta_field = series.and_then(|series| series.meta_field.as_deref());
        let full = docs.iter().take(count_max).position(|doc| {
            bytes += doc.len();
            if let Some(meta) = meta_field.and_then(|name| doc.element(name)) {
                metas.insert(meta.value_bytes());
            }
            bytes > bytes_max || metas.len() > METAS_MAX
        });
        full.unwrap_or(docs.len().min(count_max)).max(1)
    }

    pub(super) fn is_done(&self, at: usize) -> bool {
        self.done.get(at) == Some(&true)
    }

    /// The documents that are attempted if each of them fails.
    fn tried(&self) -> &[Doc<'_>] {
        &self.docs[..if self.ordered { 1 } else { self.docs.len() }]
    }

    fn how(&self) -> How {
        How {
            durability: self.durability,
            bypass_validation: self.bypass_validation,
            keep_empty_timestamps: self.keep_empty_timestamps,
        }
    }
}

/// Inserts into a collection, which is created if it does not exist.
///
/// # Errors
/// Errors that end a command ([`ends_command`]), and the error of a single document.
pub fn insert(
    store: &Store,
    namespace: &Namespace,
    statement: &InsertStatement<'_>,
    env: &Env<'_>,
) -> Result<InsertOutcome> {
    loop {
        if let Some(outcome) = try_insert(store, namespace, statement, env)? {
            return Ok(outcome);
        }
        if let Some(refused) = prepare_target(store, namespace, statement, env)? {
            return Ok(refused);
        }
    }
}

/// Runs one transaction; none if there is no such collection (not yet, or not any more).
///
/// # Errors
/// The same as for [`insert`].
pub fn try_insert(
    store: &Store,
    namespace: &Namespace,
    statement: &InsertStatement<'_>,
    env: &Env<'_>,
) -> Result<Option<InsertOutcome>> {
    let done =
        with_txn(store, statement.how(), env, &mut |txn| attempt(txn, namespace, statement, env));
    if statement.statement.is_some() {
        store.client().set_statement(None);
    }
    match done? {
        Attempted::Done(outcome) => Ok(Some(outcome)),
        Attempted::Absent => match store.written_buckets_of(namespace) {
            Some(buckets) => insert_measurements(store, &buckets, statement, env).map(Some),
            None => Ok(None),
        },
        Attempted::View => match store.buckets_of(namespace) {
            Some(buckets) => insert_measurements(store, &buckets, statement, env).map(Some),
            None => {
                let errors = statement.tried().iter().enumerate();
                let errors = errors.map(|(at, _)| (at, not_on_view(namespace))).collect();
                Ok(Some(InsertOutcome { count: 0, errors }))
            }
        },
    }
}

/// Inserts into the collection with the buckets of a time series, in one transaction.
///
/// # Errors
/// The same as for [`insert`].
pub(crate) fn insert_measurements(
    store: &Store,
    buckets: &Arc<Collection>,
    statement: &InsertStatement<'_>,
    env: &Env<'_>,
) -> Result<InsertOutcome> {
    let Some(options) = &buckets.options.timeseries else {
        return Err(Error::bug("buckets without a time series"));
    };
    let series = Series { buckets, options, env, buf: RefCell::default() };
    let mut opened = Opened::default();
    // Buckets that are made here are what the validator of buckets wants.
    let how = How { bypass_validation: true, ..statement.how() };
    let open = buckets.write_annotations().get_or_make::<OpenBuckets>();
    // Until what was written is known in memory.
    let _turn = open
        .turns
        .take(lanes(&open.turns, statement.docs, options), &|| env.interrupt().check())?;
    let done = with_txn(store, how, env, &mut |txn| {
        opened.clear();
        measurements::attempt(txn, &series, statement, &mut opened)
    });
    if statement.statement.is_some() {
        store.client().set_statement(None);
    }
    let done = done?;
    opened.apply(buckets);
    Ok(done)
}

/// The lanes of the metadata of some measurements.
fn lanes(turns: &Turns, docs: &[Doc<'_>], options: &Options) -> Lanes {
    let Some(meta_field) = options.meta_field.as_deref() else { return turns.lane(&[]) };
    let of = |doc: &Doc<'_>| {
        let meta = doc.element(meta_field);
        turns.lane(meta.as_ref().map_or(&[], |meta| meta.value_bytes()))
    };
    docs.iter().map(of).fold(0, |all, one| all | one)
}

/// Creates the collection, unless none of the documents can be stored; then returns their errors.
///
/// # Errors
/// Errors of creating a collection.
pub fn prepare_target(
    store: &Store,
    namespace: &Namespace,
    statement: &InsertStatement<'_>,
    env: &Env<'_>,
) -> Result<Option<InsertOutcome>> {
    env.interrupt().check()?;
    let refused = |(at, doc): (usize, &Doc<'_>)| Some((at, store.check_insertable(*doc).err()?));
    if let Some(errors) = statement.tried().iter().enumerate().map(refused).collect() {
        return Ok(Some(InsertOutcome { count: 0, errors }));
    }
    store.collection_or_create(namespace)?;
    Ok(None)
}

/// What a transaction found.
enum Attempted {
    Done(InsertOutcome),
    /// There is no such collection.
    Absent,
    /// A view, which may be a time series collection.
    View,
}

fn attempt(
    txn: &mut WriteTxn<'_>,
    namespace: &Namespace,
    statement: &InsertStatement<'_>,
    env: &Env<'_>,
) -> Result<Attempted> {
    let Some(collection) = txn.collection(namespace) else { return Ok(Attempted::Absent) };
    if collection.is_view() {
        return Ok(Attempted::View);
    }
    let begin = |txn: &WriteTxn<'_>, at: usize| {
        if let Some(statement) = statement.statement {
            txn.store().client().set_statement(Some(statement(at)));
        }
    };
    if statement.encryption.is_none() {
        let docs = statement.docs.iter().enumerate().filter(|(at, _)| !statement.is_done(*at));
        txn.announce_inserts(&collection, docs.map(|(_, doc)| *doc)).map_err(anew)?;
    }
    if let [doc] = statement.docs {
        begin(txn, 0);
        insert_one(txn, &collection, *doc, statement, env)?;
        return Ok(Attempted::Done(InsertOutcome { count: 1, errors: Vec::new() }));
    }
    let mut outcome = InsertOutcome::default();
    for (at, doc) in statement.docs.iter().enumerate() {
        if statement.is_done(at) {
            outcome.count += 1;
            continue;
        }
        begin(txn, at);
        match txn.attempt(|txn| insert_one(txn, &collection, *doc, statement, env)) {
            Ok(_) => outcome.count += 1,
            Err(error) if ends_command(&error) => return Err(error),
            Err(error) => {
                outcome.errors.push((at, error));
                if statement.ordered {
                    break;
                }
            }
        }
    }
    Ok(Attempted::Done(outcome))
}

/// Inserts a document, converted if the statement has encrypted values.
fn insert_one(
    txn: &mut WriteTxn<'_>,
    collection: &Collection,
    doc: Doc<'_>,
    statement: &InsertStatement<'_>,
    env: &Env<'_>,
) -> Result<()> {
    let mut converted = Vec::new();
    let doc = match statement.encryption {
        Some(encryption)
            if encryption.convert_new(
                txn,
                collection,
                doc,
                &|| env.interrupt().check(),
                &mut converted,
            )? =>
        {
            Doc::trusted(&converted)
        }
        _ => doc,
    };
    txn.insert(collection, doc).map(drop).map_err(anew)
}

/// The collection was dropped after the lookup. The next attempt looks it up again, and creates it if required.
#[cold]
fn anew(error: Error) -> Error {
    match error.code() {
        Code::QUERY_PLAN_KILLED => err!(Code::WRITE_CONFLICT, "{}", error.message()),
        _ => error,
    }
}

fn not_on_view(namespace: &Namespace) -> Error {
    err!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {namespace} is a view, not a collection")
}
