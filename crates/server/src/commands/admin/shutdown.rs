//! `shutdown`: ends the server. The connection closes without a reply.
//!
//! Reads and writes under way get `timeoutSecs` to finish; with `force` they are interrupted at once. While they
//! run, a member of a replica set is in quiesce mode and tells drivers so.

use std::time::Duration;

use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static SHUTDOWN: Command = Command {
    facts: Facts { name: "shutdown", help: "Stops the server.", admin_only: true, ..Facts::ROW },
    access: Access::Cluster(&[Action::Shutdown]),
    run,
    ..Command::ROW
};

args! { "shutdown" => Args {
    one:          Value<'a>    = "shutdown",
    force:        Option<bool> = "force",
    timeout_secs: Option<NonNegative>  = "timeoutSecs",
}}

/// How long running operations may take to finish where the client does not say.
const TIMEOUT_SECS: i64 = 15;
/// The longest wait that is told from one without an end.
const TIMEOUT_SECS_MAX: u64 = 366 * 24 * 3600;

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let timeout_secs = args.timeout_secs.map_or(TIMEOUT_SECS, |seconds| seconds.0);
    // With logins the right to it has been checked, wherever the client is.
    let peer = &cx.connection.peer;
    let local = peer.unix_socket || is_loopback(&peer.address);
    if !cx.server.auth.is_enabled() && !local {
        bail!(Code::UNAUTHORIZED, "shutdown must run from localhost when running db without auth");
    }
    log::info!(target: "COMMAND", id = 4_695_400, remote = peer.address.as_str(),
        force = args.force == Some(true), timeoutSecs = timeout_secs;
        "Terminating via shutdown command");
    if args.force != Some(true) {
        // More than a year is as good as no end, and every clock can tell it.
        let most = Duration::from_secs(timeout_secs.unsigned_abs().min(TIMEOUT_SECS_MAX));
        cx.server.let_finish(clock::now() + most, &mut || cx.check())?;
    }
    cx.done.close = true;
    cx.server.request_shutdown();
    Ok(())
}

fn is_loopback(address: &str) -> bool {
    address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}
