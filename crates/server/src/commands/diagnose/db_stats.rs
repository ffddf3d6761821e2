//! `dbStats`: sizes and counts of a database.

use super::status;
use crate::core::command::prelude::*;

pub(in crate::commands) static DB_STATS: Command = Command {
    facts: Facts {
        name: "dbStats",
        aliases: &["dbstats"],
        help: "Sizes and counts of a database.",
        ..Facts::ROW
    },
    access: Access::Database(&[Action::DbStats]),
    run,
    ..Command::ROW
};

args! { "dbStats" => Args {
    one:          Value<'a>    = "dbStats",
    old_name:     Value<'a>    = "dbstats",
    scale:        Option<Positive> = "scale",
    free_storage: Option<Truncated> = "freeStorage",
}}

#[derive(Default)]
struct Totals {
    collections: i64,
    views: i64,
    objects: i64,
    data_bytes: i64,
    storage_bytes: i64,
    free_bytes: i64,
    indexes: i64,
    index_bytes: i64,
    index_free_bytes: i64,
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let scale = args.scale.map_or(1, |scale| scale.0);
    let with_free = args.free_storage.is_some_and(|given| given.0 != 0);
    let totals = add_up(cx, req.db)?;
    let write = |out: &mut DocWriter<'_>| write(cx, req.db, &totals, (scale, with_free), out);
    if cx.server.router.is_some() {
        // As a router: those of each shard, then the sums.
        out.doc("raw", |raw| raw.doc(&cx.server.host_and_port(), |one| write(one)));
    }
    write(out);
    Ok(())
}

fn write(
    cx: &Context<'_>,
    db: &str,
    totals: &Totals,
    (scale, with_free): (i64, bool),
    out: &mut DocWriter<'_>,
) {
    out.put("db", db);
    out.put("collections", totals.collections);
    out.put("views", totals.views);
    out.put("objects", totals.objects);
    let average = totals.data_bytes as f64 / totals.objects.max(1) as f64;
    out.put("avgObjSize", average);
    let scaled = |bytes: i64| bytes as f64 / scale as f64;
    out.put("dataSize", scaled(totals.data_bytes));
    out.put("storageSize", scaled(totals.storage_bytes));
    if with_free {
        out.put("freeStorageSize", scaled(totals.free_bytes));
    }
    out.put("indexes", totals.indexes);
    out.put("indexSize", scaled(totals.index_bytes));
    if with_free {
        out.put("indexFreeStorageSize", scaled(totals.index_free_bytes));
    }
    out.put("totalSize", scaled(totals.storage_bytes + totals.index_bytes));
    if with_free {
        out.put("totalFreeStorageSize", scaled(totals.free_bytes + totals.index_free_bytes));
    }
    out.put("scaleFactor", scale);
    if let Some((used, total)) = status::disk(cx.server) {
        out.put("fsUsedSize", scaled(used));
        out.put("fsTotalSize", scaled(total));
    }
}

fn add_up(cx: &Context<'_>, db: &str) -> Result<Totals> {
    let catalog = cx.store().catalog();
    let mut totals = Totals::default();
    let all: Vec<_> = catalog.database(db).map(|collection| &**collection).collect();
    let (views, collections): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_view());
    totals.views = views.len() as i64;
    totals.collections = collections.len() as i64;
    for stats in cx.store().stats_of(&collections)? {
        totals.objects += stats.count;
        totals.data_bytes += stats.data_bytes;
        totals.storage_bytes += stats.storage_bytes;
        totals.free_bytes += stats.free_bytes;
        totals.indexes += stats.index_bytes.len() as i64;
        totals.index_bytes += stats.indexes_bytes();
        totals.index_free_bytes += stats.indexes_free_bytes();
    }
    Ok(totals)
}
