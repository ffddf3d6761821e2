//! `listIndexes`: the indexes of a collection, `_id_` first.

use crate::batch::{self, FirstBatch};
use crate::command::prelude::*;
use crate::commands::common::{CursorOption, namespace};
use crate::producer::Producer;

pub(in crate::commands) static LIST_INDEXES: Command = Command {
    name: "listIndexes",
    help: "Lists the indexes of a collection.",
    api_v1: true,
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "listIndexes" => Args {
    collection:          Value<'a>        = "listIndexes",
    cursor:              Option<Doc<'a>>  = "cursor",
    include_build_uuids: Option<bool>     = "includeBuildUUIDs",
    include_build_info:  Option<bool>     = "includeIndexBuildInfo",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let cursor = CursorOption::parse("listIndexes", args.cursor)?;
    let collection = match args.collection {
        Value::Binary(binary) if binary.subtype == 4 => {
            let uuid = crate::commands::common::uuid("listIndexes.listIndexes", args.collection)?;
            cx.store().catalog().by_uuid(uuid).cloned().ok_or_else(|| {
                err!(Code::NAMESPACE_NOT_FOUND, "UUID {uuid} specified in listIndexes not found")
            })?
        }
        Value::String(name) => {
            let ns = namespace(req.db, name)?;
            cx.store()
                .collection(&ns)
                .ok_or_else(|| err!(Code::NAMESPACE_NOT_FOUND, "ns does not exist: {ns}"))?
        }
        other => bail!(
            Code::INVALID_NAMESPACE,
            "collection name has invalid type {}",
            other.kind().name()
        ),
    };
    let ns = &collection.namespace;
    if collection.is_view() {
        bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection");
    }
    let with_builds = args.include_build_uuids == Some(true);
    let ready = collection.indexes.iter().filter(|index| index.ready || with_builds);
    let docs = ready.map(|index| index.spec.doc.clone()).collect();
    let how = FirstBatch { count: cursor.batch_size, ..FirstBatch::DEFAULT };
    batch::reply_first(cx, req, Producer::list(docs), ns.as_str(), how, out)
}
