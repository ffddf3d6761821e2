//! `revokeRolesFromRole`: removes contained roles from a role.

use crate::core::command::prelude::*;
use crate::{
    auth::{parse_roles, roles},
    names::RoleName,
};

use super::audited;
use super::common::{change, change_roles_of_role, check_not_built_in, may_revoke, some_roles};

pub(in crate::commands) static REVOKE_ROLES_FROM_ROLE: Command = Command {
    facts: Facts {
        name: "revokeRolesFromRole",
        help: "Removes roles from a role.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "revokeRolesFromRole" => Args {
    name:  &'a str   = "revokeRolesFromRole",
    roles: Array<'a> = "roles",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    Ok(may_revoke(asking, &parse_roles(Args::parse(req)?.roles, req.db)?))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let role = RoleName::new(args.name, req.db);
    let roles = some_roles("revokeRolesFromRole", args.roles, req.db)?;
    check_not_built_in(&role)?;
    change(cx, || {
        roles::check_all_exist(&cx.connection.store, &roles)?;
        change_roles_of_role(cx, &role, &|all| all.retain(|role| !roles.contains(role)))
    })
}
