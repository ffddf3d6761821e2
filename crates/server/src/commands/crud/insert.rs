//! `insert`: stores documents.
//!
//! A batch goes in transactions of at most 1,000 documents or 8 MiB. In a chunk each document is an
//! attempt of its own, so a duplicate key leaves the others in place.

use nagi_store::{Durability, Namespace, WriteOptions, WriteTxn};

use super::outcome::{Outcome, check_batch, ends_command};
use crate::command::prelude::*;
use crate::commands::common::{check_uuid_arg, check_writable, refuse_encryption};
use crate::concern::WriteConcern;
use crate::numbered;

pub(in crate::commands) static INSERT: Command = Command {
    name: "insert",
    help: "Stores documents in a collection.",
    access: Access::By(access),
    write: true,
    api_v1: true,
    on_collection: true,
    counts_as: OpKind::Insert,
    latency: LatencyKind::Write,
    in_transaction: true,
    retryable: true,
    run,
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

/// Documents and bytes of one transaction.
const CHUNK_COUNT_MAX: usize = 1_000;
const CHUNK_BYTES_MAX: usize = 8 * 1024 * 1024;

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let Some(collection) = crate::access::collection(req) else { return Ok(false) };
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
        let end = at + chunk_count(&docs[at..]);
        let mut chunk = Chunk { ns, docs: &docs[at..end], at, ordered: batch.ordered, done: &[] };
        match numbered::is_retryable(cx) {
            true => insert_once(cx, req, &mut chunk, batch.first, how, &mut outcome)?,
            false => insert_chunk(cx, &chunk, how, &mut outcome)?,
        }
        at = end;
    }
    cx.server.metrics.ops.insert.add(docs.len() as u64);
    Ok(outcome)
}

/// How many of these documents make one transaction.
fn chunk_count(docs: &[Doc<'_>]) -> usize {
    let mut bytes = 0;
    let full = docs.iter().take(CHUNK_COUNT_MAX).position(|doc| {
        bytes += doc.len();
        bytes > CHUNK_BYTES_MAX
    });
    full.unwrap_or(docs.len().min(CHUNK_COUNT_MAX)).max(1)
}

/// What one transaction inserts.
#[derive(Clone, Copy)]
struct Chunk<'c, 'd> {
    ns: &'c Namespace,
    docs: &'c [Doc<'d>],
    /// Position of the first one in the batch.
    at: usize,
    ordered: bool,
    /// Which of them an earlier attempt has inserted; empty: none.
    done: &'c [bool],
}

impl Chunk<'_, '_> {
    fn is_done(&self, offset: usize) -> bool {
        self.done.get(offset) == Some(&true)
    }
}

/// Inserts what an earlier attempt of this command has not inserted, with the record that it was.
fn insert_once<'c>(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    chunk: &mut Chunk<'c, '_>,
    first: usize,
    how: How,
    outcome: &mut Outcome,
) -> Result<()> {
    let len = chunk.docs.len();
    let id = |offset: usize| numbered::statement_id(req, first + chunk.at + offset);
    let done: Vec<bool> =
        (0..len).map(|offset| numbered::executed(cx, id(offset)).is_some()).collect();
    if done.iter().all(|done| *done) {
        outcome.count += len as u64;
        return Ok(());
    }
    let chunk = Chunk { done: &done, ..*chunk };
    let inserted = |written: &Option<Written>| {
        let (count, errors) = written.as_ref()?;
        let failed = |offset: usize| errors.iter().any(|(at, _)| *at == chunk.at + offset);
        // An ordered batch ends at its first error: nothing behind it was tried.
        let reached = match chunk.ordered {
            true => *count as usize,
            false => len,
        };
        let new = (0..len).filter(|offset| !failed(*offset)).take(reached);
        let ids: Vec<i32> = new.filter(|offset| !chunk.is_done(*offset)).map(id).collect();
        (!ids.is_empty()).then_some((ids, None))
    };
    loop {
        let written = numbered::recorded(cx, how.durability, &inserted, &mut |cx| {
            let options = WriteOptions { bypass_validation: how.bypass, ..WriteOptions::default() };
            cx.write(options, &mut |txn| attempt_chunk(txn, &chunk))
        });
        match written {
            Ok(None) => {
                cx.check()?;
                if let Some(refused) = refused_all(cx, &chunk) {
                    return take(Ok((0, refused)), &chunk, outcome);
                }
                cx.store().collection_or_create(chunk.ns)?;
            }
            other => return take(other.map(Option::unwrap_or_default), &chunk, outcome),
        }
    }
}

/// Adds what a chunk came to. The error of a single document is that document's.
fn take(written: Result<Written>, chunk: &Chunk<'_, '_>, outcome: &mut Outcome) -> Result<()> {
    match written {
        Ok((count, errors)) => {
            outcome.count += count;
            errors.into_iter().for_each(|(index, error)| outcome.fail(index, error));
            Ok(())
        }
        Err(error) if chunk.docs.len() == 1 && !ends_command(&error) => {
            outcome.fail(chunk.at, error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn insert_chunk(
    cx: &Context<'_>,
    chunk: &Chunk<'_, '_>,
    how: How,
    outcome: &mut Outcome,
) -> Result<()> {
    let check = || cx.check();
    let options = WriteOptions {
        durability: how.durability,
        interrupt: Some(&check),
        bypass_validation: how.bypass,
        keep_empty_timestamps: how.keep_empty_timestamps,
    };
    loop {
        match cx.write(options, &mut |txn| attempt_chunk(txn, chunk)) {
            // The collection is not there yet (or was dropped meanwhile).
            Ok(None) => {
                cx.check()?;
                if let Some(refused) = refused_all(cx, chunk) {
                    return take(Ok((0, refused)), chunk, outcome);
                }
                cx.store().collection_or_create(chunk.ns)?;
            }
            other => return take(other.map(Option::unwrap_or_default), chunk, outcome),
        }
    }
}

/// The errors of a chunk none of whose documents can be stored: no collection is created for them. None
/// if there is one to store.
fn refused_all(cx: &Context<'_>, chunk: &Chunk<'_, '_>) -> Option<Vec<(usize, Error)>> {
    let tried = &chunk.docs[..if chunk.ordered { 1 } else { chunk.docs.len() }];
    let refused = |(offset, doc): (usize, &Doc<'_>)| {
        let error = cx.store().check_insertable(*doc).err()?;
        Some((chunk.at + offset, error))
    };
    tried.iter().enumerate().map(refused).collect()
}

type Written = (u64, Vec<(usize, Error)>);

/// One try at a chunk; `None` if there is no such collection.
fn attempt_chunk(txn: &mut WriteTxn<'_>, chunk: &Chunk<'_, '_>) -> Result<Option<Written>> {
    let Chunk { ns, docs, at, ordered, .. } = *chunk;
    let Some(collection) = txn.collection(ns) else { return Ok(None) };
    if collection.is_view() {
        let refused = docs.iter().enumerate().take(if ordered { 1 } else { docs.len() });
        let errors = refused.map(|(offset, _)| (at + offset, not_on_view(ns)));
        return Ok(Some((0, errors.collect())));
    }
    if let [doc] = docs {
        txn.insert(&collection, *doc)?;
        return Ok(Some((1, Vec::new())));
    }
    let (mut count, mut errors) = (0, Vec::new());
    for (offset, doc) in docs.iter().enumerate() {
        if chunk.is_done(offset) {
            count += 1;
            continue;
        }
        match txn.attempt(|txn| txn.insert(&collection, *doc)) {
            Ok(_) => count += 1,
            Err(error) if ends_command(&error) => return Err(error),
            Err(error) => {
                errors.push((at + offset, error));
                if ordered {
                    break;
                }
            }
        }
    }
    Ok(Some((count, errors)))
}

fn not_on_view(ns: &Namespace) -> Error {
    err!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection")
}

/// When the commit of a write with this concern may return.
pub(super) fn durability(concern: &WriteConcern<'_>) -> Durability {
    match concern.is_synced() {
        true => Durability::Synced,
        false => Durability::Buffered,
    }
}
