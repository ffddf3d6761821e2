//! `autoCompact`: switches compaction in the background on or off.

use crate::compactions::Background;
use crate::core::command::prelude::*;
use crate::upkeep::compaction::TARGET_MB;

pub(in crate::commands) static AUTO_COMPACT: Command = Command {
    facts: Facts {
        name: "autoCompact",
        help: "Turns compaction in the background on or off.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::Compact]),
    run,
    ..Command::ROW
};

args! { "autoCompact" => Args {
    enable:    bool         = "autoCompact",
    target_mb: Option<Positive> = "freeSpaceTargetMB",
    run_once:  Option<bool> = "runOnce",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let target_mb = args.target_mb.map(|mb| mb.0);
    if !args.enable {
        if target_mb.is_some() || args.run_once.is_some() {
            bail!(
                Code::INVALID_OPTIONS,
                "freeSpaceTargetMB and runOnce can only be given when autoCompact is enabled"
            );
        }
        cx.server.upkeep.compactions.disable();
        log::info!(target: "COMMAND", id = 9_000_034; "Background compaction disabled");
        return Ok(());
    }
    let target_mb = target_mb.unwrap_or(TARGET_MB);
    let once = args.run_once == Some(true);
    cx.server.upkeep.compactions.enable(Background { target_mb, once })?;
    log::info!(target: "COMMAND", id = 9_000_035, freeSpaceTargetMB = target_mb, runOnce = once;
        "Background compaction enabled");
    Ok(())
}
