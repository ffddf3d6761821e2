//! `setUserWriteBlockMode`: blocks the writes of users, for tools that copy a cluster.

use crate::core::command::prelude::*;

pub(in crate::commands) static SET_USER_WRITE_BLOCK_MODE: Command = Command {
    facts: Facts {
        name: "setUserWriteBlockMode",
        help: "Blocks or allows writes of users to all databases.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::SetUserWriteBlockMode]),
    run,
    ..Command::ROW
};

args! { "setUserWriteBlockMode" => Args {
    one:    Value<'a>  = "setUserWriteBlockMode",
    global: StrictBool = "global",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if !cx.server.is_replicated() {
        bail!(Code::ILLEGAL_OPERATION, "setUserWriteBlockMode cannot be run on standalones");
    }
    let _writing = cx.begin_write("config")?;
    let StrictBool(blocked) = args.global;
    cx.server.settings.write_block.set(&cx.connection.store, blocked)?;
    log::info!(target: "COMMAND", id = 9_000_020, blocked = blocked;
        "User write block mode was set");
    Ok(())
}
