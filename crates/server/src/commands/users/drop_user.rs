//! `dropUser`.

use crate::auth::documents::{self, Kind};
use crate::auth::{UserName, users};
use crate::command::prelude::*;

use super::common::change;

pub(in crate::commands) static DROP_USER: Command = Command {
    name: "dropUser",
    help: "Removes a user.",
    access: Access::Database(&[Action::DropUser]),
    write: true,
    run,
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
