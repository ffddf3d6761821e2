//! `dropDatabase`: drops all collections of a database.

use crate::core::command::prelude::*;

pub(in crate::commands) static DROP_DATABASE: Command = Command {
    facts: Facts {
        name: "dropDatabase",
        help: "Drops a database with all its collections.",
        write: true,
        api_v1: true,
        ..Facts::ROW
    },
    access: Access::Database(&[Action::DropDatabase]),
    run,
    ..Command::ROW
};

args! { "dropDatabase" => Args {
    one: Value<'a> = "dropDatabase",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if crate::number::truncate(args.one) != Some(1) {
        bail!(Code::Location(5_255_100), "Have to pass 1 as 'drop' parameter");
    }
    if matches!(req.db, "config" | "local" | "admin") {
        bail!(Code::ILLEGAL_OPERATION, "Dropping the '{}' database is prohibited.", req.db);
    }
    let _writing = cx.begin_write(req.db)?;
    if cx.store().drop_database(req.db)? {
        out.put("dropped", req.db);
        cx.server.top.forget(|name| name.split_once('.').is_some_and(|(db, _)| db == req.db));
        cx.server.settings.profile.set_level(req.db, 0);
    }
    Ok(())
}
