//! `dropRole`: drops a role, and removes it from all users and roles that have it.

use crate::auth::documents::{self, Kind};
use crate::core::command::prelude::*;
use crate::{auth::roles, names::RoleName};

use super::audited;
use super::common::{change, check_not_built_in, forget_roles};

pub(in crate::commands) static DROP_ROLE: Command = Command {
    facts: Facts { name: "dropRole", help: "Removes a role.", write: true, ..Facts::ROW },
    access: Access::Database(&[Action::DropRole]),
    run,
    audited: Some(audited::role),
    ..Command::ROW
};

args! { "dropRole" => Args {
    name: &'a str = "dropRole",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let role = RoleName::new(Args::parse(req)?.name, req.db);
    check_not_built_in(&role)?;
    change(cx, || {
        if !roles::exists(&cx.connection.store, &role)? {
            return Err(roles::not_found(&role));
        }
        forget_roles(cx, std::slice::from_ref(&role))?;
        documents::remove(&cx.connection.store, Kind::Roles, &role.id()).map(drop)
    })
}
