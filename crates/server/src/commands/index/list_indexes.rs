//! `listIndexes`: the indexes of a collection, `_id_` first.

use crate::core::batch::{self, FirstBatch};
use nagi_store::{Collection, Index};

use crate::commands::common::{CursorOption, namespace};
use crate::core::command::prelude::*;
use crate::core::producer::Producer;

pub(in crate::commands) static LIST_INDEXES: Command = Command {
    facts: Facts {
        name: "listIndexes",
        help: "Lists the indexes of a collection.",
        api_v1: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "listIndexes" => Args {
    collection:          Value<'a>        = "listIndexes",
    cursor:              Option<Doc<'a>>  = "cursor",
    include_build_uuids: Option<bool>     = "includeBuildUUIDs",
    include_build_info:  Option<bool>     = "includeIndexBuildInfo",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    if let Some(collection) = crate::core::access::collection(req) {
        return Ok(asking.on_collection(req.db, collection, Action::ListIndexes));
    }
    Ok(asking.on_cluster(Action::UseUUID) && asking.on_database(req.db, Action::ListIndexes))
}

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
    let buckets = cx.store().buckets_of(ns);
    if collection.is_view() && buckets.is_none() {
        bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection");
    }
    let (uuids, info) =
        (args.include_build_uuids == Some(true), args.include_build_info == Some(true));
    if uuids && info {
        bail!(
            Code::INVALID_OPTIONS,
            "The 'includeBuildUUIDs' and 'includeIndexBuildInfo' options cannot both be true"
        );
    }
    let holder = buckets.as_ref().unwrap_or(&collection);
    let shown = holder.named_indexes().filter(|index| index.ready || uuids || info);
    let docs = match buckets.as_ref().and_then(|buckets| buckets.options.timeseries.as_ref()) {
        Some(series) => {
            let own = shown.filter(|index| !index.spec.is_id());
            own.filter_map(|index| series.index_of_clients(index.spec.doc.as_doc())).collect()
        }
        None => shown.map(|index| describe(holder, index, info)).collect(),
    };
    let how = FirstBatch { count: cursor.batch_size, ..FirstBatch::DEFAULT };
    batch::reply_first(cx, req, Producer::list(docs), ns.as_str(), how, out)
}

/// The specification of an index. An index under construction is described with its build.
fn describe(collection: &Collection, index: &Index, info: bool) -> DocBuf {
    if index.ready && !info {
        return index.spec.doc.clone();
    }
    let id = collection.build_uuid(index);
    let id = Value::Binary(nagi_bson::Binary { subtype: 4, bytes: &id.0 });
    DocBuf::build(|w| {
        w.put("spec", &index.spec.doc);
        match (index.ready, info) {
            (true, _) => {}
            (false, false) => w.put("buildUUID", id),
            (false, true) => w.doc("indexBuildInfo", |w| {
                w.put("buildUUID", id);
                w.put("method", "Hybrid");
            }),
        }
    })
}
