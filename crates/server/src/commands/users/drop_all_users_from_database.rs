//! `dropAllUsersFromDatabase`: drops all users of a database.

use crate::auth::documents::{self, Kind};
use crate::core::command::prelude::*;

use super::audited;
use super::common::change;

pub(in crate::commands) static DROP_ALL_USERS_FROM_DATABASE: Command = Command {
    facts: Facts {
        name: "dropAllUsersFromDatabase",
        help: "Removes all users of a database.",
        write: true,
        ..Facts::ROW
    },
    access: Access::Database(&[Action::DropUser]),
    run,
    audited: Some(audited::database),
    ..Command::ROW
};

args! { "dropAllUsersFromDatabase" => Args {
    one: Value<'a> = "dropAllUsersFromDatabase",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    let count = change(cx, || {
        let mut count = 0;
        for id in documents::ids_in_database(&cx.connection.store, Kind::Users, req.db)? {
            count += i32::from(documents::remove(&cx.connection.store, Kind::Users, &id)?);
        }
        Ok(count)
    })?;
    out.put("n", count);
    Ok(())
}
