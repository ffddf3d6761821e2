//! `shutdown`: stops the server. The connection closes without a reply.
//!
//! Reads and writes in progress get `timeoutSecs` to finish; with `force` they are interrupted at once.
//! Meanwhile a member of a replica set is in quiesce mode and reports that to drivers.

use std::time::Duration;

use crate::audit::AuditLog;
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

/// How long operations in progress may take to finish by default.
const TIMEOUT_SECS: i64 = 15;
/// The longest wait, a year; longer ones are shortened to it.
const TIMEOUT_SECS_MAX: u64 = 366 * 24 * 3600;

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let timeout_secs = args.timeout_secs.map_or(TIMEOUT_SECS, |seconds| seconds.0);
    // With authorization the privilege has been checked already, and it also holds for remote clients.
    let peer = &cx.connection.peer;
    let local = peer.unix_socket || is_loopback(&peer.address);
    if !cx.server.auth.is_enabled() && !local {
        bail!(Code::UNAUTHORIZED, "shutdown must run from localhost when running db without auth");
    }
    log::info!(target: "COMMAND", id = 4_695_400, remote = peer.address.as_str(),
        force = args.force == Some(true), timeoutSecs = timeout_secs;
        "Terminating via shutdown command");
    if args.force != Some(true) {
        // A wait of a year is as good as unlimited, and every clock can represent its end.
        let most = Duration::from_secs(timeout_secs.unsigned_abs().min(TIMEOUT_SECS_MAX));
        cx.server.let_finish(clock::now() + most, &mut || cx.check())?;
    }
    cx.done.close = true;
    if cx.server.audit.as_ref().is_some_and(AuditLog::begin_shutdown) {
        cx.connection.audit("shutdown", Code::OK, |_| ());
    }
    cx.server.request_shutdown();
    Ok(())
}

fn is_loopback(address: &str) -> bool {
    address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}
