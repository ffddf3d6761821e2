//! `updateRole`: replaces the privileges, roles or restrictions of a role.

use crate::auth::restrictions::Restrictions;
use crate::core::command::prelude::*;
use crate::{
    auth::{Target, parse_privileges, parse_roles},
    names::RoleName,
};

use super::audited;
use super::common::{
    change, check_contained, check_not_built_in, check_privileges, may_grant, may_handle,
    privileges_array, replace_role, roles_array, with_fields,
};

pub(in crate::commands) static UPDATE_ROLE: Command = Command {
    facts: Facts { name: "updateRole", help: "Changes a role.", write: true, ..Facts::ROW },
    access: Access::By(access),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "updateRole" => Args {
    name:         &'a str           = "updateRole",
    privileges:   Option<Array<'a>> = "privileges",
    roles:        Option<Array<'a>> = "roles",
    restrictions: Option<Array<'a>> = "authenticationRestrictions",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let roles = parse_roles(args.roles.unwrap_or(Array::EMPTY), req.db)?;
    let privileges = parse_privileges(args.privileges.unwrap_or(Array::EMPTY))?;
    Ok(asking.allows(Target::Everywhere, Action::RevokeRole)
        && may_grant(asking, &roles)
        && may_handle(asking, &privileges, Action::GrantRole)
        && (args.restrictions.is_none()
            || asking.on_database(req.db, Action::SetAuthenticationRestriction)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let role = RoleName::new(args.name, req.db);
    if args.privileges.is_none() && args.roles.is_none() && args.restrictions.is_none() {
        bail!(Code::BAD_VALUE, "Must specify at least one field to update in updateRole");
    }
    check_not_built_in(&role)?;
    let privileges = args.privileges.map(parse_privileges).transpose()?;
    if let Some(privileges) = &privileges {
        check_privileges(&role, privileges)?;
    }
    let contained = args.roles.map(|list| parse_roles(list, req.db)).transpose()?;
    if let Some(list) = args.restrictions {
        Restrictions::parse(list)?;
    }
    let privileges = privileges.as_ref().map(privileges_array);
    let roles = contained.as_ref().map(|roles| roles_array(roles));
    change(cx, || {
        check_contained(cx, &role, contained.as_deref().unwrap_or(&[]))?;
        replace_role(cx, &role, &mut |doc| {
            let mut fields = Vec::new();
            if let Some(privileges) = &privileges {
                fields.push(("privileges", Value::Array(privileges.as_array())));
            }
            if let Some(roles) = &roles {
                fields.push(("roles", Value::Array(roles.as_array())));
            }
            if let Some(list) = args.restrictions {
                fields.push(("authenticationRestrictions", Value::Array(list)));
            }
            Ok(with_fields(doc, &fields))
        })
    })
}
