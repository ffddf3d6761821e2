//! `insert`: stores documents. A retryable insert stores each document once.
//!
//! Documents are inserted in chunks; each chunk is one transaction. In a retryable write the transaction of a
//! chunk also writes the record of its statement ids, and documents with a recorded id are skipped when the
//! client sends the command again:
//!
//!   first attempt    0 .. 999 committed with their record; the connection breaks
//!   second attempt   0 .. 999 are in the record: counted, not inserted; 1000 .. 2499 are inserted

use nagi_query::{Encryption, Env, InsertOutcome, InsertStatement, Verbosity, ends_command};
use nagi_store::{Durability, Namespace, Statement, Store};

use super::encryption;
use super::outcome::{Outcome, check_batch};
use super::writes::{
    How, check_count, check_target, is_ordered, make_durable, refuse_series_in_transaction,
};
use crate::clock;
use crate::core::command::prelude::*;
use crate::core::txn_number;

pub(in crate::commands) static INSERT: Command = Command {
    facts: Facts {
        name: "insert",
        help: "Stores documents in a collection.",
        write: true,
        api_v1: true,
        on_collection: true,
        counts_as: OpKind::Insert,
        latency: LatencyKind::Write,
        in_transaction: true,
        retryable: true,
        statements_in: "documents",
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    explain: Some(explain),
    ..Command::ROW
};

args! { "insert" => Args {
    collection:      StrictName<'a>     = "insert",
    documents:       Docs<'a>     = "documents",
    ordered:         Option<StrictBool> = "ordered",
    bypass:          Option<bool> = "bypassDocumentValidation",
    bypass_ts:       Option<bool> = "bypassEmptyTsReplacement",
    encryption:      Value<'a>    = "encryptionInformation",
    collection_uuid: Value<'a>    = "collectionUUID",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let Some(collection) = crate::core::access::collection(req) else { return Ok(false) };
    let may = |action| asking.on_collection(req.db, collection, action);
    let bypasses =
        args::read::<Option<bool>>(req.body, "insert", "bypassDocumentValidation")? == Some(true);
    Ok(may(Action::Insert) && (!bypasses || may(Action::BypassDocumentValidation)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = cx.connection.namespace(req.db, args.collection.0)?;
    check_target(cx, &ns, "insert", args.collection_uuid)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let docs = args.documents.iter().collect::<Result<Vec<_>>>()?;
    check_count(req, docs.len())?;
    let _writing = cx.begin_write(req.db)?;
    encryption::prepare(cx, encryption.as_ref(), &ns)?;
    let concern = cx.write_concern(req);
    let how = How::new(args.bypass, args.bypass_ts);
    let ordered = is_ordered(cx, args.ordered);
    let batch = Batch { docs: &docs, first: 0, ordered, encryption: encryption.as_ref() };
    let outcome = insert_all(cx, req, &ns, batch, how)?;
    make_durable(cx, &concern)?;
    cx.done.inserted = Some(outcome.count);
    outcome.write(cx, req, out);
    cx.connection.keep_namespace(ns);
    Ok(())
}

/// Documents to insert.
#[derive(Clone, Copy)]
pub(super) struct Batch<'b, 'd> {
    pub(super) docs: &'b [Doc<'d>],
    /// The position of the first document among the statements of the command.
    pub(super) first: usize,
    /// True if the batch stops at its first error.
    pub(super) ordered: bool,
    /// For encrypted values, which are stored in another form.
    pub(super) encryption: Option<&'b Encryption>,
}

/// Inserts a batch chunk by chunk. An error of a single document becomes part of the outcome.
pub(super) fn insert_all(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    ns: &Namespace,
    batch: Batch<'_, '_>,
    how: How,
) -> Result<Outcome> {
    refuse_series_in_transaction(cx, ns)?;
    let mut outcome = Outcome::default();
    let docs = batch.docs;
    let buckets = cx.store().written_buckets_of(ns);
    let series = buckets.as_ref().and_then(|found| found.options.timeseries.as_deref());
    let mut at = 0;
    while at < docs.len() && (!batch.ordered || outcome.errors.is_empty()) {
        let end = at + InsertStatement::chunk_count(&docs[at..], series);
        let statement = InsertStatement {
            docs: &docs[at..end],
            ordered: batch.ordered,
            done: &[],
            statement: None,
            durability: Durability::Buffered,
            bypass_validation: how.bypass,
            keep_empty_timestamps: how.keep_empty_timestamps,
            encryption: batch.encryption,
        };
        let inserted = match txn_number::is_retryable(cx) {
            true => insert_once(cx, req, ns, batch.first + at, &statement),
            false => insert_chunk(cx, |store, env| nagi_query::insert(store, ns, &statement, env))
                .inspect(|done| count_tries(cx, &statement, done)),
        };
        match inserted {
            Ok(done) => {
                outcome.count += done.count;
                done.errors.into_iter().for_each(|(index, error)| outcome.fail(at + index, error));
            }
            // The chunk has one document, so the error belongs to that document.
            Err(error) if end == at + 1 && !ends_command(&error) => {
                cx.count_tried(OpKind::Insert, 1);
                outcome.fail(at, error);
            }
            Err(error) => return Err(error),
        }
        at = end;
    }
    Ok(outcome)
}

/// Counts the documents of a statement that were tried, whether they were inserted or refused: an ordered statement
/// stops at the first error, and documents that an earlier attempt inserted are not tried again.
fn count_tries(cx: &Context<'_>, statement: &InsertStatement<'_>, outcome: &InsertOutcome) {
    let stopped = outcome.errors.first().filter(|_| statement.ordered);
    let reached = stopped.map_or(statement.docs.len(), |(at, _)| at + 1);
    let earlier = statement.done.iter().take(reached).filter(|done| **done).count();
    cx.count_tried(OpKind::Insert, (reached - earlier) as u64);
}

/// Runs one chunk with the interrupt checks and the clock of the request, and adds its work to the request.
fn insert_chunk<T>(cx: &Context<'_>, f: impl FnOnce(&Store, &Env<'_>) -> Result<T>) -> Result<T> {
    let watch = cx.watch();
    let env = Env::new(&watch, clock::wall_ms());
    let done = f(cx.store(), &env);
    cx.effects.note(&env);
    done
}

/// Inserts the documents that no earlier attempt of this command has inserted, and records their statement ids
/// in the same transaction. `first` is the position of the first document among the statements of the command.
fn insert_once(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    ns: &Namespace,
    first: usize,
    statement: &InsertStatement<'_>,
) -> Result<InsertOutcome> {
    let len = statement.docs.len();
    let id = |at: usize| txn_number::statement_id(req, first + at);
    let done: Vec<bool> = (0..len).map(|at| txn_number::executed(cx, id(at)).is_some()).collect();
    if done.iter().all(|done| *done) {
        return Ok(InsertOutcome { count: len as u64, errors: Vec::new() });
    }
    let whole = txn_number::statement(cx);
    let named = |at: usize| Statement { id: id(at), ..whole };
    let statement = InsertStatement { done: &done, statement: Some(&named), ..*statement };
    let inserted = |outcome: &Option<InsertOutcome>| {
        let Some(outcome) = outcome else { return Vec::new() };
        let failed = |at: usize| outcome.errors.iter().any(|(failed, _)| *failed == at);
        // An ordered batch stops at its first error: the documents after it were not tried.
        let reached = if statement.ordered { outcome.count as usize } else { len };
        let new = (0..len).filter(|at| !failed(*at)).take(reached);
        let ids: Vec<i32> = new.filter(|at| !done[*at]).map(id).collect();
        if ids.is_empty() { Vec::new() } else { vec![(ids, None)] }
    };
    loop {
        let written = txn_number::recorded(cx, &inserted, &mut |cx| {
            insert_chunk(cx, |store, env| nagi_query::try_insert(store, ns, &statement, env))
        })?;
        if let Some(outcome) = written {
            count_tries(cx, &statement, &outcome);
            return Ok(outcome);
        }
        let refused =
            insert_chunk(cx, |store, env| nagi_query::prepare_target(store, ns, &statement, env))?;
        if let Some(refused) = refused {
            count_tries(cx, &statement, &refused);
            return Ok(refused);
        }
    }
}

/// What `explain` shows of it.
fn explain(
    _: &mut Context<'_>,
    req: &Request<'_>,
    _: Verbosity,
    _: &mut DocWriter<'_>,
) -> Result<()> {
    // An insert has no plan, but errors of its arguments come first.
    check_batch(Args::parse(req)?.documents.iter().count())?;
    bail!(Code::ILLEGAL_OPERATION, "Cannot explain cmd: insert")
}
