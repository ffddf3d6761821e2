//! `connectionStatus`: who is logged in on this connection.

use crate::command::prelude::*;

pub(in crate::commands) static CONNECTION_STATUS: Command = Command {
    name: "connectionStatus",
    help: "Users and roles of this connection.",
    before_login: true,
    in_transaction: true,
    run,
    ..Command::ROW
};

args! { "connectionStatus" => Args {
    one:             Value<'a>    = "connectionStatus",
    show_privileges: Option<bool> = "showPrivileges",
}}

fn run(_: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    out.doc("authInfo", |info| {
        info.put("authenticatedUsers", Array::EMPTY);
        info.put("authenticatedUserRoles", Array::EMPTY);
        if args.show_privileges == Some(true) {
            info.put("authenticatedUserPrivileges", Array::EMPTY);
        }
    });
    Ok(())
}
