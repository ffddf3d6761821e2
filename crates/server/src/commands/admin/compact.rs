//! `compact`: returns the space of deleted documents to the file system.

use crate::commands::common::namespace;
use crate::core::command::prelude::*;
use crate::replica::Role;
use crate::upkeep::compaction;

pub(in crate::commands) static COMPACT: Command = Command {
    facts: Facts {
        name: "compact",
        help: "Releases unused disk space of a collection.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Compact]),
    run,
    ..Command::ROW
};

args! { "compact" => Args {
    collection: Name<'a>     = "compact",
    force:      Option<bool> = "force",
    target_mb:  Option<Positive> = "freeSpaceTargetMB",
    dry_run:    Option<bool> = "dryRun",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let target_mb = args.target_mb.map(|mb| mb.0);
    let primary = cx.server.replica.as_ref().is_some_and(|set| set.role() == Role::Primary);
    if primary && args.force != Some(true) {
        bail!(
            Code::ILLEGAL_OPERATION,
            "will not run compact on an active replica set primary as this will slow down other \
             running operations. use force:true to force"
        );
    }
    let collection = cx.store().buckets_of(&ns).or_else(|| cx.store().collection(&ns));
    let Some(collection) = collection else {
        bail!(Code::NAMESPACE_NOT_FOUND, "collection does not exist");
    };
    if collection.is_view() {
        bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view");
    }
    if args.dry_run == Some(true) {
        out.put("estimatedBytesFreed", compaction::free_bytes(cx.server, &collection)?);
        return Ok(());
    }
    if let Some(mb) = target_mb
        && compaction::free_bytes(cx.server, &collection)? < mb.saturating_mul(1 << 20)
    {
        out.put("bytesFreed", 0_i64);
        return Ok(());
    }
    let _writing = cx.begin_write("admin")?;
    // A client that has disconnected no longer wants the load.
    cx.end_with_client();
    let freed = compaction::compact(cx.server, cx.op, &collection, &|| cx.check())?;
    out.put("bytesFreed", freed);
    Ok(())
}
