//! `collStats`: sizes and counts of a collection; zeroes if it does not exist.

use nagi_store::Namespace;

use crate::commands::common::namespace;
use crate::core::command::prelude::*;
use crate::router::{SHARD, sharded};

pub(in crate::commands) static COLL_STATS: Command = Command {
    facts: Facts {
        name: "collStats",
        aliases: &["collstats"],
        help: "Sizes and counts of a collection.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::CollStats]),
    run,
    ..Command::ROW
};

args! { "collStats" => Args {
    collection:      Option<Name<'a>> = "collStats",
    old_name:        Option<Name<'a>> = "collstats",
    scale:           Option<Positive> = "scale",
    verbose:         Option<bool>     = "verbose",
    wait_for_lock:   Option<bool>     = "waitForLock",
    numeric_only:    Option<bool>     = "numericOnly",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = args.collection.or(args.old_name).map_or("", |name| name.0);
    let scale = args.scale.map_or(1, |scale| scale.0);
    let ns = namespace(req.db, name)?;
    let mut bytes = Vec::new();
    if cx.server.router.is_some() {
        let mut own = DocWriter::new(&mut bytes);
        write(cx, &ns, scale, &mut own)?;
        drop(own);
        return write_sharded(cx, &ns, Doc::trusted(&bytes), out);
    }
    write(cx, &ns, scale, out)
}

fn write(cx: &Context<'_>, ns: &Namespace, scale: i64, out: &mut DocWriter<'_>) -> Result<()> {
    out.put("ns", ns.as_str());
    let collection = cx.store().buckets_of(ns).or_else(|| cx.store().collection(ns));
    match collection {
        Some(collection) if collection.is_view() => {
            bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection")
        }
        Some(collection) => nagi_query::write_storage_stats(cx.store(), &collection, scale, out),
        None => {
            nagi_query::write_no_storage_stats(scale, out);
            Ok(())
        }
    }
}

/// Writes the figures as a router does: the sums of all shards, and those of each one, of which there is one.
fn write_sharded(
    cx: &Context<'_>,
    ns: &Namespace,
    own: Doc<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    // What is of one engine only is not added up.
    const OF_SHARDS: &[&str] = &["wiredTiger", "indexDetails"];
    let sharded = match cx.store().collection(ns) {
        Some(collection) => sharded::find(&cx.server.store, &collection)?.is_some(),
        None => false,
    };
    out.put("sharded", sharded);
    if !sharded {
        out.put("primary", SHARD);
    }
    let summed = |name: &str| !OF_SHARDS.contains(&name);
    own.iter().filter(|field| summed(field.name())).for_each(|field| out.put_element(field));
    out.put("nchunks", 1);
    out.doc("shards", |shards| shards.put(SHARD, own));
    Ok(())
}
