//! `grantPrivilegesToRole`.

use crate::auth::{RoleName, parse_privileges, roles};
use crate::command::prelude::*;

use super::common::{
    change, check_not_built_in, check_privileges, may_handle, privileges_array, replace_role,
    with_fields,
};

pub(in crate::commands) static GRANT_PRIVILEGES_TO_ROLE: Command = Command {
    name: "grantPrivilegesToRole",
    help: "Gives a role more privileges.",
    access: Access::By(access),
    write: true,
    run,
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
    let role = RoleName::new(args.name, req.db);
    check_not_built_in(&role)?;
    if args.privileges.is_empty() {
        bail!(
            Code::BAD_VALUE,
            "grantPrivilegesToRole command requires a non-empty \"privileges\" array"
        );
    }
    let changed = parse_privileges(args.privileges)?;
    check_privileges(&role, &changed)?;
    change(cx, || {
        replace_role(cx, &role, &mut |doc| {
            let mut all = roles::privileges_of(doc)?;
            for (resource, actions) in &changed {
                all.entry(resource.clone()).or_default().add(*actions);
            }
            all.retain(|_, actions| !actions.is_empty());
            let array = privileges_array(&all);
            Ok(with_fields(doc, &[("privileges", Value::Array(array.as_array()))]))
        })
    })
}
