//! `collStats`: sizes and counts of a collection; zeroes if it does not exist.

use nagi_store::Collection;

use crate::command::prelude::*;
use crate::commands::common::namespace;

pub(in crate::commands) static COLL_STATS: Command = Command {
    name: "collStats",
    aliases: &["collstats"],
    help: "Sizes and counts of a collection.",
    access: Access::Collection(&[Action::CollStats]),
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "collStats" => Args {
    collection:      Option<Name<'a>> = "collStats",
    old_name:        Option<Name<'a>> = "collstats",
    scale:           Option<f64>      = "scale",
    verbose:         Option<bool>     = "verbose",
    wait_for_lock:   Option<bool>     = "waitForLock",
    numeric_only:    Option<bool>     = "numericOnly",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = args.collection.or(args.old_name).map_or("", |name| name.0);
    let scale = scale("collStats", args.scale)?;
    let ns = namespace(req.db, name)?;
    out.put("ns", ns.as_str());
    match cx.store().collection(&ns) {
        Some(collection) if collection.is_view() => {
            bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection")
        }
        Some(collection) => storage_stats(cx, &collection, scale, out),
        None => {
            for name in [
                "size",
                "count",
                "numOrphanDocs",
                "storageSize",
                "totalSize",
                "nindexes",
                "totalIndexSize",
            ] {
                out.put(name, 0);
            }
            out.doc("indexDetails", |_| ());
            out.doc("indexSizes", |_| ());
            out.put("scaleFactor", scale as i32);
            Ok(())
        }
    }
}

/// The divisor of sizes; at least 1.
pub(in crate::commands) fn scale(command: &str, scale: Option<f64>) -> Result<i64> {
    let scale = scale.unwrap_or(1.0);
    if !(1.0..9.0e15).contains(&scale) {
        bail!(
            Code::Location(51024),
            "BSON field '{command}.scale' value must be >= 1, actual value '{scale}'"
        );
    }
    Ok(scale as i64)
}

/// The fields of `collStats` and of `$collStats: {storageStats: {}}`.
pub(crate) fn storage_stats(
    cx: &Context<'_>,
    collection: &Collection,
    scale: i64,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let stats = cx.store().stats(collection)?;
    let index_bytes = stats.index_bytes.iter().map(|index| index.1).sum::<i64>();
    out.put("size", stats.data_bytes / scale);
    out.put("count", stats.count);
    if stats.count > 0 {
        out.put("avgObjSize", stats.data_bytes / stats.count);
    }
    out.put("numOrphanDocs", 0);
    out.put("storageSize", stats.storage_bytes / scale);
    out.put("freeStorageSize", 0_i64);
    out.put("capped", collection.options.capped);
    if let Some(size) = collection.options.size_bytes_max {
        out.put("max", collection.options.count_max.unwrap_or(0));
        out.put("maxSize", size / scale);
    }
    out.doc("wiredTiger", |table| {
        table.doc("metadata", |metadata| metadata.put("formatVersion", 1));
        table.put("creationString", cx.store().creation_string(collection).as_str());
        table.put("type", "file");
    });
    out.put("nindexes", collection.indexes.len() as i32);
    out.doc("indexDetails", |_| ());
    out.array("indexBuilds", |builds| {
        for index in collection.indexes.iter().filter(|index| !index.ready) {
            builds.push(index.name());
        }
    });
    out.put("totalIndexSize", index_bytes / scale);
    out.put("totalSize", (stats.storage_bytes + index_bytes) / scale);
    out.doc("indexSizes", |sizes| {
        for (name, bytes) in &stats.index_bytes {
            sizes.put(name, bytes / scale);
        }
    });
    out.put("scaleFactor", scale as i32);
    Ok(())
}
