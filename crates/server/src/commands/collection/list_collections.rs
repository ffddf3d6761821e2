//! `listCollections`: the collections and views of a database with their options.

use nagi_lang::expr::ParseCx;
use nagi_lang::filter::Filter;
use nagi_store::Collection;

use crate::commands::common::CursorOption;
use crate::core::batch::{self, FirstBatch};
use crate::core::command::prelude::*;
use crate::core::producer::Producer;
use crate::observe::filtering;

pub(in crate::commands) static LIST_COLLECTIONS: Command = Command {
    facts: Facts {
        name: "listCollections",
        help: "Lists the collections and views of a database.",
        api_v1: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "listCollections" => Args {
    one:        Value<'a>       = "listCollections",
    filter:     Option<Doc<'a>> = "filter",
    name_only:  Option<bool>    = "nameOnly",
    authorized: Option<bool>    = "authorizedCollections",
    cursor:     Option<Doc<'a>> = "cursor",
}}

/// Without the privilege to list all collections, a client may still request the names of those that it may
/// use.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let authorized = args.authorized == Some(true) && args.name_only == Some(true);
    Ok(asking.on_database(req.db, Action::ListCollections)
        || (authorized && asking.any_in_database(req.db)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let cursor = CursorOption::parse("listCollections", args.cursor)?;
    let name_only = args.name_only == Some(true);
    let filter = match args.filter {
        Some(filter) => Some(Filter::parse(filter, &mut ParseCx::new())?),
        None => None,
    };
    let catalog = cx.store().catalog();
    let mut docs = Vec::new();
    let asking = cx.asking();
    let all = args.authorized != Some(true) && asking.on_database(req.db, Action::ListCollections);
    for collection in catalog.database(req.db) {
        if !all && !asking.any_on_collection(req.db, collection.namespace.collection()) {
            continue;
        }
        let doc = describe(collection, catalog.buckets_of(&collection.namespace), name_only);
        if filtering::matches(filter.as_ref(), doc.as_doc())? {
            docs.push(doc);
        }
    }
    let ns = format!("{}.$cmd.listCollections", req.db);
    let how = FirstBatch { count: cursor.batch_size, ..FirstBatch::DEFAULT };
    batch::reply_first(cx, req, Producer::list(docs), &ns, how, out)
}

/// Describes a collection or a view. `buckets`: those of a time series collection.
fn describe(
    collection: &Collection,
    buckets: Option<&std::sync::Arc<Collection>>,
    name_only: bool,
) -> DocBuf {
    DocBuf::build(|doc| {
        doc.put("name", collection.namespace.collection());
        doc.put(
            "type",
            match (buckets.is_some(), collection.is_view()) {
                (true, _) => "timeseries",
                (false, true) => "view",
                (false, false) => "collection",
            },
        );
        if name_only {
            return;
        }
        if let Some(buckets) = buckets {
            doc.put("options", &nagi_store::listed_options(buckets));
            doc.doc("info", |info| info.put("readOnly", false));
            return;
        }
        doc.put("options", &collection.options.doc);
        doc.doc("info", |info| {
            info.put("readOnly", collection.is_view());
            if !collection.is_view() {
                let bytes = &collection.uuid.0;
                info.put("uuid", Value::Binary(nagi_bson::Binary { subtype: 4, bytes }));
            }
        });
        if let Some(index) = collection.id_index().filter(|index| !index.spec.is_clustered()) {
            doc.put("idIndex", &index.spec.doc);
        }
    })
}
