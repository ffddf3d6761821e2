//! `getDefaultRWConcern`: the read and write concern of requests that specify none.

use super::set_default_rw_concern::refuse_standalone;
use crate::core::command::prelude::*;

pub(in crate::commands) static GET_DEFAULT_RW_CONCERN: Command = Command {
    facts: Facts {
        name: "getDefaultRWConcern",
        help: "Default read and write concern.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetDefaultRWConcern]),
    run,
    ..Command::ROW
};

args! { "getDefaultRWConcern" => Args {
    one:       Value<'a>    = "getDefaultRWConcern",
    in_memory: Option<StrictBool> = "inMemory",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    refuse_standalone(cx, req)?;
    write(cx, out);
    if args.in_memory == Some(StrictBool(true)) {
        out.put("inMemory", true);
    }
    Ok(())
}

/// Appends the defaults in force.
pub(super) fn write(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    let server = cx.server;
    server.settings.rw_defaults.write(&server.default_write_concern(), out);
    out.put("localUpdateWallClockTime", Value::DateTime(server.settings.rw_defaults.local_ms()));
}
