//! `dropAllRolesFromDatabase`: drops the user-defined roles of a database, and removes them from all users and
//! roles that have them.

use crate::auth::documents::{self, Kind};
use crate::core::command::prelude::*;
use crate::names::RoleName;

use super::audited;
use super::common::{change, forget_roles};

pub(in crate::commands) static DROP_ALL_ROLES_FROM_DATABASE: Command = Command {
    facts: Facts {
        name: "dropAllRolesFromDatabase",
        help: "Removes all user-defined roles of a database.",
        write: true,
        ..Facts::ROW
    },
    access: Access::Database(&[Action::DropRole]),
    run,
    audited: Some(audited::database),
    ..Command::ROW
};

args! { "dropAllRolesFromDatabase" => Args {
    one: Value<'a> = "dropAllRolesFromDatabase",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    let count = change(cx, || {
        let ids = documents::ids_in_database(&cx.connection.store, Kind::Roles, req.db)?;
        let name = |id: &String| {
            id.strip_prefix(req.db)?.strip_prefix('.').map(|name| RoleName::new(name, req.db))
        };
        forget_roles(cx, &ids.iter().filter_map(name).collect::<Vec<_>>())?;
        let mut count = 0;
        for id in ids {
            count += i32::from(documents::remove(&cx.connection.store, Kind::Roles, &id)?);
        }
        Ok(count)
    })?;
    out.put("n", count);
    Ok(())
}
