//! `compact`: gives the space of deleted documents back.

use crate::command::prelude::*;
use crate::commands::common::{namespace, refuse_view};

pub(in crate::commands) static COMPACT: Command = Command {
    name: "compact",
    help: "Gives unused space of a collection back.",
    access: Access::Collection(&[Action::Compact]),
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "compact" => Args {
    collection: Name<'a>     = "compact",
    force:      Option<bool> = "force",
    target_mb:  Option<i64>  = "freeSpaceTargetMB",
    dry_run:    Option<bool> = "dryRun",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    refuse_view(cx, &ns)?;
    let Some(collection) = cx.store().collection(&ns) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "collection does not exist");
    };
    let before = bytes(cx, &collection)?;
    let target_bytes = match args.target_mb {
        Some(mb) if mb < 1 => bail!(
            Code::Location(51024),
            "BSON field 'freeSpaceTargetMB' value must be >= 1, actual value '{mb}'"
        ),
        target => target.unwrap_or(1).saturating_mul(1 << 20),
    };
    // Less than the target cannot give the target back. Without one, all is rewritten.
    let worth_it = args.target_mb.is_none() || before >= target_bytes;
    if args.dry_run != Some(true) && worth_it {
        cx.store().compact(&collection)?;
    }
    let freed = (before - bytes(cx, &collection)?).max(0);
    out.put("bytesFreed", freed);
    Ok(())
}

fn bytes(cx: &Context<'_>, collection: &nagi_store::Collection) -> Result<i64> {
    let stats = cx.store().stats(collection)?;
    Ok(stats.storage_bytes + stats.index_bytes.iter().map(|index| index.1).sum::<i64>())
}
