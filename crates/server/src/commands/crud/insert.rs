//! `insert`: stores documents.
//!
//! A batch goes in transactions of at most 1,000 documents or 8 MiB. In a chunk each document is an
//! attempt of its own, so a duplicate key leaves the others in place.

use nagi_store::{Durability, Namespace, WriteOptions, WriteTxn};

use super::outcome::{Outcome, check_batch, ends_command};
use crate::command::prelude::*;
use crate::commands::common::{check_writable, refuse_view};
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
    ordered:         Option<bool> = "ordered",
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
    let count = args.documents.count();
    check_batch(count)?;
    cx.server.fsync.wait(&|| cx.check())?;
    let concern = req.generic.write_concern.unwrap_or(WriteConcern::DEFAULT);
    let outcome =
        insert_all(cx, &ns, args.documents, count, args.ordered != Some(false), &concern)?;
    cx.server.metrics.ops.insert.add(count as u64);
    cx.server.metrics.documents_inserted.add(outcome.count);
    cx.done.inserted = Some(outcome.count);
    outcome.write(req, out);
    cx.connection.keep_namespace(ns);
    Ok(())
}

/// Inserts a batch, chunk by chunk.
pub(super) fn insert_all(
    cx: &Context<'_>,
    ns: &Namespace,
    documents: Docs<'_>,
    count: usize,
    ordered: bool,
    concern: &WriteConcern<'_>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut at = 0;
    let mut rest = documents.iter();
    while at < count {
        let chunk = Chunk::measure(rest.clone())?;
        insert_chunk(cx, ns, &rest, &chunk, at, ordered, concern, &mut outcome)?;
        if ordered && !outcome.errors.is_empty() {
            break;
        }
        at += chunk.count;
        (0..chunk.count).for_each(|_| drop(rest.next()));
    }
    Ok(outcome)
}

/// How many documents make one transaction.
struct Chunk {
    count: usize,
}

impl Chunk {
    fn measure<'a>(docs: impl Iterator<Item = Result<Doc<'a>>>) -> Result<Chunk> {
        let (mut count, mut bytes) = (0, 0);
        for doc in docs.take(CHUNK_COUNT_MAX) {
            bytes += doc?.len();
            if count > 0 && bytes > CHUNK_BYTES_MAX {
                break;
            }
            count += 1;
        }
        Ok(Chunk { count })
    }
}

#[expect(clippy::too_many_arguments, reason = "the loop body of insert_all")]
fn insert_chunk(
    cx: &Context<'_>,
    ns: &Namespace,
    docs: &crate::args::DocsIter<'_>,
    chunk: &Chunk,
    at: usize,
    ordered: bool,
    concern: &WriteConcern<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    let check = || cx.check();
    let options = WriteOptions { durability: durability(concern), interrupt: Some(&check) };
    loop {
        let written = cx.store().write(options, &mut |txn| {
            attempt_chunk(txn, ns, docs.clone().take(chunk.count), at, ordered)
        });
        match written {
            Ok(Some((count, errors))) => {
                outcome.count += count;
                outcome.errors.extend(errors);
                return Ok(());
            }
            // The collection is not there yet (or was dropped meanwhile).
            Ok(None) => {
                cx.check()?;
                refuse_view(cx, ns)?;
                cx.store().collection_or_create(ns)?;
            }
            Err(error) if chunk.count == 1 && !ends_command(&error) => {
                outcome.errors.push((at, error));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

type Written = (u64, Vec<(usize, Error)>);

/// One try at a chunk; `None` if there is no such collection.
fn attempt_chunk<'a>(
    txn: &mut WriteTxn<'_>,
    ns: &Namespace,
    docs: impl Iterator<Item = Result<Doc<'a>>>,
    at: usize,
    ordered: bool,
) -> Result<Option<Written>> {
    let Some(collection) = txn.collection(ns) else { return Ok(None) };
    if collection.is_view() {
        bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection");
    }
    let (mut count, mut errors) = (0, Vec::new());
    for (offset, doc) in docs.enumerate() {
        let doc = doc?;
        match txn.attempt(|txn| txn.insert(&collection, doc)) {
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

/// When the commit of a write with this concern may return.
pub(super) fn durability(concern: &WriteConcern<'_>) -> Durability {
    match concern.is_synced() {
        true => Durability::Synced,
        false => Durability::Buffered,
    }
}
