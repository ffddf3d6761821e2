//! `dropDatabase`.

use crate::command::prelude::*;

pub(in crate::commands) static DROP_DATABASE: Command = Command {
    name: "dropDatabase",
    help: "Drops a database with all its collections.",
    access: Access::Database(&[Action::DropDatabase]),
    write: true,
    api_v1: true,
    run,
    ..Command::ROW
};

args! { "dropDatabase" => Args {
    one: Value<'a> = "dropDatabase",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if crate::args::truncate(args.one) != Some(1) {
        bail!(Code::Location(5_255_100), "Have to pass 1 as 'drop' parameter");
    }
    if matches!(req.db, "config" | "local" | "admin") {
        bail!(Code::ILLEGAL_OPERATION, "Dropping the '{}' database is prohibited.", req.db);
    }
    let _writing = cx.begin_write(req.db)?;
    if cx.store().drop_database(req.db)? {
        out.put("dropped", req.db);
        cx.server.top.forget(|name| name.split_once('.').is_some_and(|(db, _)| db == req.db));
        cx.server.profile.set_level(req.db, 0);
    }
    Ok(())
}
