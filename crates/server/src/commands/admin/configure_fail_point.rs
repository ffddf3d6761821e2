//! `configureFailPoint`: injects faults for the tests of drivers.

use crate::core::command::prelude::*;

pub(in crate::commands) static CONFIGURE_FAIL_POINT: Command = Command {
    facts: Facts {
        name: "configureFailPoint",
        help: "Makes commands fail, for tests.",
        admin_only: true,
        test_only: true,
        exempt_from_fail_points: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "configureFailPoint" => Args {
    name: &'a str         = "configureFailPoint",
    mode: Value<'a>       = "mode",
    data: Option<Doc<'a>> = "data",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let data = args.data.unwrap_or(Doc::EMPTY);
    let count = cx.server.settings.fail_points.set(args.name, args.mode, data)?;
    log::warn!(target: "COMMAND", id = 23_829, failPointName = args.name;
        "Set failpoint");
    out.put("count", count);
    Ok(())
}
