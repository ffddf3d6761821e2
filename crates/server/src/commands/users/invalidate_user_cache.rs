//! `invalidateUserCache`: invalidates all resolved users and roles.

use crate::core::command::prelude::*;

pub(in crate::commands) static INVALIDATE_USER_CACHE: Command = Command {
    facts: Facts {
        name: "invalidateUserCache",
        help: "Clears the cache of resolved users and roles.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::InvalidateUserCache]),
    run,
    ..Command::ROW
};

args! { "invalidateUserCache" => Args {
    one: Value<'a> = "invalidateUserCache",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    cx.server.auth.directory.invalidate();
    cx.server.auth.changed();
    Ok(())
}
