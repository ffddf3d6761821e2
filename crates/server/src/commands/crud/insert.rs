//! `insert`: stores documents. A retryable one does so once.

use nagi_query::{Env, InsertOutcome, InsertStatement, Verbosity, ends_command};
use nagi_store::{Durability, Namespace, Statement, Store};

use super::outcome::{Outcome, check_batch};
use crate::clock;
use crate::commands::common::{check_uuid_arg, check_writable, refuse_encryption};
use crate::core::command::prelude::*;
use crate::core::numbered;
use crate::request::concern::WriteConcern;

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
    check_writable(&ns)?;
    check_uuid_arg(cx, &ns, "insert", args.collection_uuid)?;
    refuse_encryption(args.encryption)?;
    let docs = args.documents.iter().collect::<Result<Vec<_>>>()?;
    check_batch(docs.len())?;
    numbered::check_statements(req, docs.len())?;
    let _writing = cx.begin_write(req.db)?;
    let concern = cx.write_concern(req);
    let how = How {
        durability: durability(&concern),
        bypass: args.bypass == Some(true),
        keep_empty_timestamps: args.bypass_ts == Some(true),
    };
    let ordered = args.ordered != Some(StrictBool(false)) || cx.in_transaction();
    let outcome = insert_all(cx, req, &ns, Batch { docs: &docs, first: 0, ordered }, how)?;
    cx.done.inserted = Some(outcome.count);
    outcome.write(cx, req, out);
    cx.connection.keep_namespace(ns);
    Ok(())
}

/// How inserts are committed.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) durability: Durability,
    /// `bypassDocumentValidation`.
    pub(super) bypass: bool,
    /// `bypassEmptyTsReplacement`.
    pub(super) keep_empty_timestamps: bool,
}

/// Documents to insert.
#[derive(Clone, Copy)]
pub(super) struct Batch<'b, 'd> {
    pub(super) docs: &'b [Doc<'d>],
    /// Position of the first one among the statements of the command.
    pub(super) first: usize,
    /// It ends at the first error.
    pub(super) ordered: bool,
}

/// Inserts a batch, chunk by chunk.
pub(super) fn insert_all(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    ns: &Namespace,
    batch: Batch<'_, '_>,
    how: How,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let docs = batch.docs;
    let mut at = 0;
    while at < docs.len() && (!batch.ordered || outcome.errors.is_empty()) {
        let end = at + InsertStatement::chunk_count(&docs[at..]);
        let statement = InsertStatement {
            docs: &docs[at..end],
            ordered: batch.ordered,
            done: &[],
            statement: None,
            durability: how.durability,
            bypass_validation: how.bypass,
            keep_empty_timestamps: how.keep_empty_timestamps,
        };
        let inserted = match numbered::is_retryable(cx) {
            true => insert_once(cx, req, ns, batch.first + at, &statement),
            false => insert_chunk(cx, |store, env| nagi_query::insert(store, ns, &statement, env)),
        };
        match inserted {
            Ok(done) => {
                outcome.count += done.count;
                done.errors.into_iter().for_each(|(index, error)| outcome.fail(at + index, error));
            }
            // The error of a single document is that document's.
            Err(error) if end == at + 1 && !ends_command(&error) => outcome.fail(at, error),
            Err(error) => return Err(error),
        }
        at = end;
    }
    cx.server.metrics.ops.insert.add(docs.len() as u64);
    Ok(outcome)
}

/// Runs a statement in the request's surroundings.
fn insert_chunk<T>(cx: &Context<'_>, f: impl FnOnce(&Store, &Env<'_>) -> Result<T>) -> Result<T> {
    let watch = cx.watch();
    let env = Env::new(&watch, clock::wall_ms());
    let done = f(cx.store(), &env);
    cx.effects.note(&env);
    done
}

/// Inserts what an earlier attempt of this command has not inserted, with the record that it was. `first`: the
/// position of the first document among the statements of the command.
fn insert_once(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    ns: &Namespace,
    first: usize,
    statement: &InsertStatement<'_>,
) -> Result<InsertOutcome> {
    let len = statement.docs.len();
    let id = |at: usize| numbered::statement_id(req, first + at);
    let done: Vec<bool> = (0..len).map(|at| numbered::executed(cx, id(at)).is_some()).collect();
    if done.iter().all(|done| *done) {
        return Ok(InsertOutcome { count: len as u64, errors: Vec::new() });
    }
    let whole = numbered::statement(cx);
    let named = |at: usize| Statement { id: id(at), ..whole };
    let durability = statement.durability;
    let statement = InsertStatement {
        done: &done,
        statement: Some(&named),
        // With the record.
        durability: Durability::Buffered,
        ..*statement
    };
    let inserted = |outcome: &Option<InsertOutcome>| {
        let outcome = outcome.as_ref()?;
        let failed = |at: usize| outcome.errors.iter().any(|(failed, _)| *failed == at);
        // An ordered batch ends at its first error: nothing behind it was tried.
        let reached = if statement.ordered { outcome.count as usize } else { len };
        let new = (0..len).filter(|at| !failed(*at)).take(reached);
        let ids: Vec<i32> = new.filter(|at| !done[*at]).map(id).collect();
        (!ids.is_empty()).then_some((ids, None))
    };
    loop {
        let written = numbered::recorded(cx, durability, &inserted, &mut |cx| {
            insert_chunk(cx, |store, env| nagi_query::try_insert(store, ns, &statement, env))
        })?;
        if let Some(outcome) = written {
            return Ok(outcome);
        }
        let refused =
            insert_chunk(cx, |store, env| nagi_query::prepare_target(store, ns, &statement, env))?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
    }
}

/// When the commit of a write with this concern may return.
pub(super) fn durability(concern: &WriteConcern<'_>) -> Durability {
    match concern.is_synced() {
        true => Durability::Synced,
        false => Durability::Buffered,
    }
}

/// What `explain` shows of it.
fn explain(
    _: &mut Context<'_>,
    req: &Request<'_>,
    _: Verbosity,
    _: &mut DocWriter<'_>,
) -> Result<()> {
    // It has no plan, but its arguments are read first.
    check_batch(Args::parse(req)?.documents.iter().count())?;
    bail!(Code::ILLEGAL_OPERATION, "Cannot explain cmd: insert")
}
