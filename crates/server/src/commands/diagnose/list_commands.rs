//! `listCommands`: describes the command table.

use crate::commands;
use crate::core::command::prelude::*;

pub(in crate::commands) static LIST_COMMANDS: Command = Command {
    facts: Facts {
        name: "listCommands",
        help: "Lists the commands of this server.",
        before_login: true,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let tests = cx.server.settings.params.bool("enableTestCommands");
    out.doc("commands", |list| {
        let router = cx.server.router.is_some();
        for command in commands::all().filter(|c| (tests || !c.test_only) && c.is_of(router)) {
            list.doc(command.name, |doc| {
                doc.put("help", command.help);
                doc.put("requiresAuth", !command.before_login);
                doc.put("secondaryOk", !command.write);
                doc.put("adminOnly", command.admin_only);
                doc.array("apiVersions", |versions| {
                    if command.api_v1 {
                        versions.push("1");
                    }
                });
                doc.put("deprecatedApiVersions", Array::EMPTY);
            });
        }
    });
    Ok(())
}
