//! `dropUser`: drops a user.

use crate::auth::documents::{self, Kind};
use crate::core::command::prelude::*;
use crate::{auth::users, names::UserName};

use super::audited;
use super::common::change;

pub(in crate::commands) static DROP_USER: Command = Command {
    facts: Facts { name: "dropUser", help: "Removes a user.", write: true, ..Facts::ROW },
    access: Access::Database(&[Action::DropUser]),
    run,
    audited: Some(audited::user),
    ..Command::ROW
};

args! { "dropUser" => Args {
    name: &'a str = "dropUser",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let name = UserName::new(Args::parse(req)?.name, req.db);
    let removed = change(cx, || documents::remove(&cx.connection.store, Kind::Users, &name.id()))?;
    match removed {
        true => Ok(()),
        false => Err(users::not_found(&name)),
    }
}
