//! `shutdown`: ends the server. The connection closes without a reply.

use crate::command::prelude::*;

pub(in crate::commands) static SHUTDOWN: Command = Command {
    name: "shutdown",
    help: "Stops the server.",
    access: Access::Cluster(&[Action::Shutdown]),
    admin_only: true,
    run,
    ..Command::ROW
};

args! { "shutdown" => Args {
    one:          Value<'a>    = "shutdown",
    force:        Option<bool> = "force",
    timeout_secs: Option<i64>  = "timeoutSecs",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    let local = cx.connection.peer.unix_socket || is_loopback(&cx.connection.peer.address);
    if !local {
        bail!(Code::UNAUTHORIZED, "shutdown must run from localhost when running db without auth");
    }
    log::info!(target: "COMMAND", id = 4_695_400, remote = cx.connection.peer.address.as_str();
        "Terminating via shutdown command");
    cx.done.close = true;
    cx.server.request_shutdown();
    Ok(())
}

fn is_loopback(address: &str) -> bool {
    address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}
