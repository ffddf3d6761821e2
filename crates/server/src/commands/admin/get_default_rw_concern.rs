//! `getDefaultRWConcern`: concerns of requests that name none.

use super::set_default_rw_concern::refuse_standalone;
use crate::command::prelude::*;

pub(in crate::commands) static GET_DEFAULT_RW_CONCERN: Command = Command {
    name: "getDefaultRWConcern",
    help: "Default read and write concern.",
    access: Access::Cluster(&[Action::GetDefaultRWConcern]),
    admin_only: true,
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

/// Appends what is in force.
pub(super) fn write(cx: &Context<'_>, out: &mut DocWriter<'_>) {
    let server = cx.server;
    server.rw_defaults.write(&server.default_write_concern(), out);
    out.put("localUpdateWallClockTime", Value::DateTime(server.rw_defaults.local_ms()));
}
