//! `insert`: stores documents.
//!
//! A batch goes in transactions of at most 1,000 documents or 8 MiB. In a chunk each document is an
//! attempt of its own, so a duplicate key leaves the others in place.

use nagi_store::{Durability, Namespace, WriteOptions, WriteTxn};

use super::outcome::{Outcome, check_batch, ends_command};
use crate::command::prelude::*;
use crate::commands::common::{check_uuid_arg, check_writable, refuse_encryption};
use crate::concern::WriteConcern;

pub(in crate::commands) static INSERT: Command = Command {
    name: "insert",
    help: "Stores documents in a collection.",
    write: true,
    api_v1: true,
    on_collection: true,
    counts_as: OpKind::Insert,
    latency: LatencyKind::Write,
    run,
    ..Command::ROW
};

args! { "insert" => Args {
    collection:      Name<'a>     = "insert",
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

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = cx.connection.namespace(req.db, args.collection.0)?;
    check_writable(&ns)?;
    check_uuid_arg(cx, &ns, "insert", args.collection_uuid)?;
    refuse_encryption(args.encryption)?;
    let docs = args.documents.iter().collect::<Result<Vec<_>>>()?;
    check_batch(docs.len())?;
    cx.server.fsync.wait(&|| cx.check())?;
    let concern = req.generic.write_concern.unwrap_or(WriteConcern::DEFAULT);
    let how = How {
        durability: durability(&concern),
        bypass: args.bypass == Some(true),
        keep_empty_timestamps: args.bypass_ts == Some(true),
    };
    let outcome = insert_all(cx, &ns, &docs, args.ordered != Some(StrictBool(false)), how)?;
    cx.done.inserted = Some(outcome.count);
    outcome.write(req, out);
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

/// Inserts a batch, chunk by chunk. With `ordered` it ends at the first error.
pub(super) fn insert_all(
    cx: &Context<'_>,
    ns: &Namespace,
    docs: &[Doc<'_>],
    ordered: bool,
    how: How,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut at = 0;
    while at < docs.len() && (!ordered || outcome.errors.is_empty()) {
        let end = at + chunk_count(&docs[at..]);
        insert_chunk(cx, ns, &docs[at..end], at, ordered, how, &mut outcome)?;
        at = end;
    }
    cx.server.metrics.ops.insert.add(docs.len() as u64);
    cx.server.metrics.documents_inserted.add(outcome.count);
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

fn insert_chunk(
    cx: &Context<'_>,
    ns: &Namespace,
    docs: &[Doc<'_>],
    at: usize,
    ordered: bool,
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
        let written =
            cx.store().write(options, &mut |txn| attempt_chunk(txn, ns, docs, at, ordered));
        match written {
            Ok(Some((count, errors))) => {
                outcome.count += count;
                outcome.errors.extend(errors);
                return Ok(());
            }
            // The collection is not there yet (or was dropped meanwhile).
            Ok(None) => {
                cx.check()?;
                cx.store().collection_or_create(ns)?;
            }
            Err(error) if docs.len() == 1 && !ends_command(&error) => {
                outcome.errors.push((at, error));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

type Written = (u64, Vec<(usize, Error)>);

/// One try at a chunk; `None` if there is no such collection.
fn attempt_chunk(
    txn: &mut WriteTxn<'_>,
    ns: &Namespace,
    docs: &[Doc<'_>],
    at: usize,
    ordered: bool,
) -> Result<Option<Written>> {
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
