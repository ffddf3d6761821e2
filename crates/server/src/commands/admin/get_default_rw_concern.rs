//! `getDefaultRWConcern`: concerns of requests that name none. On a standalone nobody can set them.

use crate::clock;
use crate::command::prelude::*;

pub(in crate::commands) static GET_DEFAULT_RW_CONCERN: Command = Command {
    name: "getDefaultRWConcern",
    help: "Default read and write concern.",
    access: Access::Cluster(&[Action::GetDefaultRWConcern]),
    admin_only: true,
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    out.doc("defaultReadConcern", |doc| doc.put("level", "local"));
    out.doc("defaultWriteConcern", |doc| cx.server.default_write_concern().write(doc));
    out.put("defaultWriteConcernSource", "implicit");
    out.put("defaultReadConcernSource", "implicit");
    out.put("localUpdateWallClockTime", Value::DateTime(clock::wall_ms()));
    Ok(())
}
