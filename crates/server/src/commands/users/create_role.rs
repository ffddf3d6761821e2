//! `createRole`: creates a user-defined role.

use crate::auth::documents::Kind;
use crate::auth::restrictions::Restrictions;
use crate::core::command::prelude::*;
use crate::{
    auth::{builtin, parse_privileges, parse_roles},
    names::RoleName,
};

use super::audited;
use super::common::{
    add, change, check_contained, check_privileges, may_grant, may_handle, privileges_array,
    roles_array,
};

pub(in crate::commands) static CREATE_ROLE: Command = Command {
    facts: Facts { name: "createRole", help: "Creates a role.", write: true, ..Facts::ROW },
    access: Access::By(access),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "createRole" => Args {
    name:         &'a str           = "createRole",
    privileges:   Array<'a>         = "privileges",
    roles:        Array<'a>         = "roles",
    restrictions: Option<Array<'a>> = "authenticationRestrictions",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let may = |action| asking.on_database(req.db, action);
    Ok(may(Action::CreateRole)
        && may_grant(asking, &parse_roles(args.roles, req.db)?)
        && may_handle(asking, &parse_privileges(args.privileges)?, Action::GrantRole)
        && (args.restrictions.is_none() || may(Action::SetAuthenticationRestriction)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let role = RoleName::new(args.name, req.db);
    check_name(&role)?;
    let privileges = parse_privileges(args.privileges)?;
    check_privileges(&role, &privileges)?;
    let contained = parse_roles(args.roles, req.db)?;
    if let Some(list) = args.restrictions {
        Restrictions::parse(list)?;
    }
    let doc = DocBuf::build(|doc| {
        doc.put("_id", role.id().as_str());
        role.write("role", doc);
        doc.put("privileges", Value::Array(privileges_array(&privileges).as_array()));
        doc.put("roles", Value::Array(roles_array(&contained).as_array()));
        if let Some(list) = args.restrictions {
            doc.put("authenticationRestrictions", list);
        }
    });
    change(cx, || {
        check_contained(cx, &role, &contained)?;
        let exists = || err!(Code::Location(51002), "Role \"{role}\" already exists");
        add(cx, Kind::Roles, &doc, &exists)
    })
}

fn check_name(role: &RoleName) -> Result<()> {
    if role.name.is_empty() {
        bail!(Code::BAD_VALUE, "Role name must be non-empty");
    }
    if matches!(&*role.db, "local" | "$external") {
        bail!(Code::BAD_VALUE, "Cannot create roles in the {} database", role.db);
    }
    if builtin::find(&role.name, &role.db).is_some() {
        bail!(Code::BAD_VALUE, "Cannot create roles with the same name as a built-in role");
    }
    Ok(())
}
