//! `dbStats`: sizes and counts of a database.

use super::coll_stats::scale;
use super::status;
use crate::command::prelude::*;

pub(in crate::commands) static DB_STATS: Command = Command {
    name: "dbStats",
    aliases: &["dbstats"],
    help: "Sizes and counts of a database.",
    access: Access::Database(&[Action::DbStats]),
    run,
    ..Command::ROW
};

args! { "dbStats" => Args {
    one:          Value<'a>    = "dbStats",
    old_name:     Value<'a>    = "dbstats",
    scale:        Option<f64>  = "scale",
    free_storage: Option<i64>  = "freeStorage",
}}

#[derive(Default)]
struct Totals {
    collections: i64,
    views: i64,
    objects: i64,
    data_bytes: i64,
    storage_bytes: i64,
    indexes: i64,
    index_bytes: i64,
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let scale = scale("dbStats", args.scale)?;
    let with_free = args.free_storage.unwrap_or(0) != 0;
    let totals = add_up(cx, req.db)?;
    out.put("db", req.db);
    out.put("collections", totals.collections);
    out.put("views", totals.views);
    out.put("objects", totals.objects);
    let average = totals.data_bytes as f64 / totals.objects.max(1) as f64;
    out.put("avgObjSize", average);
    let scaled = |bytes: i64| bytes as f64 / scale as f64;
    out.put("dataSize", scaled(totals.data_bytes));
    out.put("storageSize", scaled(totals.storage_bytes));
    if with_free {
        out.put("freeStorageSize", 0.0);
    }
    out.put("indexes", totals.indexes);
    out.put("indexSize", scaled(totals.index_bytes));
    if with_free {
        out.put("indexFreeStorageSize", 0.0);
    }
    out.put("totalSize", scaled(totals.storage_bytes + totals.index_bytes));
    if with_free {
        out.put("totalFreeStorageSize", 0.0);
    }
    out.put("scaleFactor", scale);
    if let Some((used, total)) = status::disk(cx.server) {
        out.put("fsUsedSize", scaled(used));
        out.put("fsTotalSize", scaled(total));
    }
    Ok(())
}

fn add_up(cx: &Context<'_>, db: &str) -> Result<Totals> {
    let catalog = cx.store().catalog();
    let mut totals = Totals::default();
    for collection in catalog.database(db) {
        if collection.is_view() {
            totals.views += 1;
            continue;
        }
        let stats = cx.store().stats(collection)?;
        totals.collections += 1;
        totals.objects += stats.count;
        totals.data_bytes += stats.data_bytes;
        totals.storage_bytes += stats.storage_bytes;
        totals.indexes += collection.indexes.len() as i64;
        totals.index_bytes += stats.index_bytes.iter().map(|index| index.1).sum::<i64>();
    }
    Ok(totals)
}
