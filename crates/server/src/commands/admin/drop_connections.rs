//! `dropConnections`: closes the connections that this server has opened to other hosts.
//!
//! A set of one member opens none, so there is nothing to close. The host names are checked anyway.

use crate::core::command::prelude::*;

pub(in crate::commands) static DROP_CONNECTIONS: Command = Command {
    facts: Facts {
        name: "dropConnections",
        help: "Closes outgoing connections of the server to the named hosts.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::DropConnections]),
    run,
    ..Command::ROW
};

args! { "dropConnections" => Args {
    one:   Value<'a> = "dropConnections",
    hosts: Array<'a> = "hostAndPort",
}}

fn run(_: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    for (at, host) in args.hosts.iter().enumerate() {
        let Value::String(host) = host else {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'dropConnections.hostAndPort.{at}' is the wrong type '{}', expected \
                 type 'string'",
                host.kind().name()
            );
        };
        if let Some((_, port)) = host.rsplit_once(':')
            && port.parse::<u16>().map_or(true, |port| port == 0)
        {
            bail!(
                Code::FAILED_TO_PARSE,
                "Port number {port} out of range parsing HostAndPort from \"{host}\""
            );
        }
    }
    Ok(())
}
