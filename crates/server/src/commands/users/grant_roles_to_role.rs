//! `grantRolesToRole`: adds contained roles to a role.

use crate::core::command::prelude::*;
use crate::{auth::parse_roles, names::RoleName};

use super::audited;
use super::common::{
    change, change_roles_of_role, check_contained, check_not_built_in, may_grant, some_roles,
};

pub(in crate::commands) static GRANT_ROLES_TO_ROLE: Command = Command {
    facts: Facts {
        name: "grantRolesToRole",
        help: "Adds roles to a role.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "grantRolesToRole" => Args {
    name:  &'a str   = "grantRolesToRole",
    roles: Array<'a> = "roles",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    Ok(may_grant(asking, &parse_roles(Args::parse(req)?.roles, req.db)?))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let role = RoleName::new(args.name, req.db);
    let roles = some_roles("grantRolesToRole", args.roles, req.db)?;
    check_not_built_in(&role)?;
    change(cx, || {
        check_contained(cx, &role, &roles)?;
        change_roles_of_role(cx, &role, &|all| all.extend(roles.iter().cloned()))
    })
}
