//! `revokePrivilegesFromRole`: removes privileges from a role.

use crate::auth::{Privileges, parse_privileges};
use crate::core::command::prelude::*;

use super::audited;
use super::common::{change_privileges, may_handle};

pub(in crate::commands) static REVOKE_PRIVILEGES_FROM_ROLE: Command = Command {
    facts: Facts {
        name: "revokePrivilegesFromRole",
        help: "Removes privileges from a role.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "revokePrivilegesFromRole" => Args {
    name:       &'a str   = "revokePrivilegesFromRole",
    privileges: Array<'a> = "privileges",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let privileges = parse_privileges(Args::parse(req)?.privileges)?;
    Ok(may_handle(asking, &privileges, Action::RevokeRole))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let apply = |all: &mut Privileges, less: &Privileges| {
        for (resource, actions) in less {
            if let Some(own) = all.get_mut(resource) {
                own.remove(*actions);
            }
        }
    };
    change_privileges(cx, ("revokePrivilegesFromRole", req), (args.name, args.privileges), apply)
}
