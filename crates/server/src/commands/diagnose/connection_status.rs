//! `connectionStatus`: the user that is logged in on this connection.

use crate::core::command::prelude::*;
use crate::{
    auth::{write_privileges, write_roles},
    core::login,
};

pub(in crate::commands) static CONNECTION_STATUS: Command = Command {
    facts: Facts {
        name: "connectionStatus",
        help: "Users and roles of this connection.",
        before_login: true,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

args! { "connectionStatus" => Args {
    one:             Value<'a>    = "connectionStatus",
    show_privileges: Option<bool> = "showPrivileges",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    login::refresh(cx.server, cx.connection)?;
    let user = cx.connection.login.as_ref().map(|login| &login.user);
    out.doc("authInfo", |info| {
        info.array("authenticatedUsers", |users| {
            if let Some(user) = user {
                users.doc(|doc| user.name.write("user", doc));
            }
        });
        info.array("authenticatedUserRoles", |roles| {
            if let Some(user) = user {
                write_roles(&user.closure.roles, roles);
            }
        });
        if args.show_privileges == Some(true) {
            info.array("authenticatedUserPrivileges", |list| {
                if let Some(user) = user {
                    write_privileges(&user.closure.privileges, list);
                }
            });
        }
    });
    Ok(())
}
