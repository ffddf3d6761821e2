//! `testVersion2`: a command for the tests of drivers that is not in version 1 of the stable API.

use crate::core::command::prelude::*;

pub(in crate::commands) static TEST_VERSION2: Command = Command {
    facts: Facts {
        name: "testVersion2",
        help: "Does nothing; not in version 1 of the stable API (for tests).",
        test_only: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "testVersion2" => Args {
    one: Value<'a> = "testVersion2",
}}

fn run(_: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req).map(drop)
}
