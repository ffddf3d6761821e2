//! `revokeRolesFromUser`: removes roles from a user.

use crate::core::command::prelude::*;
use crate::{
    auth::{parse_roles, roles},
    names::UserName,
};

use super::audited;
use super::common::{change, change_roles_of_user, may_revoke, some_roles};

pub(in crate::commands) static REVOKE_ROLES_FROM_USER: Command = Command {
    facts: Facts {
        name: "revokeRolesFromUser",
        help: "Removes roles from a user.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::user),
    ..Command::ROW
};

args! { "revokeRolesFromUser" => Args {
    name:  &'a str   = "revokeRolesFromUser",
    roles: Array<'a> = "roles",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    Ok(may_revoke(asking, &parse_roles(Args::parse(req)?.roles, req.db)?))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = UserName::new(args.name, req.db);
    let roles = some_roles("revokeRolesFromUser", args.roles, req.db)?;
    change(cx, || {
        roles::check_all_exist(&cx.connection.store, &roles)?;
        change_roles_of_user(cx, &name, &|all| all.retain(|role| !roles.contains(role)))
    })
}
