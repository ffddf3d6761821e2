//! `grantRolesToUser`: adds roles to a user.

use crate::core::command::prelude::*;
use crate::{
    auth::{parse_roles, roles},
    names::UserName,
};

use super::audited;
use super::common::{change, change_roles_of_user, may_grant, some_roles};

pub(in crate::commands) static GRANT_ROLES_TO_USER: Command = Command {
    facts: Facts {
        name: "grantRolesToUser",
        help: "Adds roles to a user.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::user),
    ..Command::ROW
};

args! { "grantRolesToUser" => Args {
    name:  &'a str   = "grantRolesToUser",
    roles: Array<'a> = "roles",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    Ok(may_grant(asking, &parse_roles(Args::parse(req)?.roles, req.db)?))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = UserName::new(args.name, req.db);
    let roles = some_roles("grantRolesToUser", args.roles, req.db)?;
    change(cx, || {
        roles::check_all_exist(&cx.connection.store, &roles)?;
        change_roles_of_user(cx, &name, &|all| all.extend(roles.iter().cloned()))
    })
}
