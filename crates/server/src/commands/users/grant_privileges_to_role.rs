//! `grantPrivilegesToRole`: adds privileges to a role.

use crate::auth::{Privileges, parse_privileges};
use crate::core::command::prelude::*;

use super::audited;
use super::common::{change_privileges, may_handle};

pub(in crate::commands) static GRANT_PRIVILEGES_TO_ROLE: Command = Command {
    facts: Facts {
        name: "grantPrivilegesToRole",
        help: "Adds privileges to a role.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "grantPrivilegesToRole" => Args {
    name:       &'a str   = "grantPrivilegesToRole",
    privileges: Array<'a> = "privileges",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let privileges = parse_privileges(Args::parse(req)?.privileges)?;
    Ok(may_handle(asking, &privileges, Action::GrantRole))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let apply = |all: &mut Privileges, more: &Privileges| {
        for (resource, actions) in more {
            all.entry(resource.clone()).or_default().add(*actions);
        }
    };
    change_privileges(cx, ("grantPrivilegesToRole", req), (args.name, args.privileges), apply)
}
