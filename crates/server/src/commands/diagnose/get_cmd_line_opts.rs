//! `getCmdLineOpts`: how the server was started.

use crate::command::prelude::*;

pub(in crate::commands) static GET_CMD_LINE_OPTS: Command = Command {
    name: "getCmdLineOpts",
    help: "Command line and configuration of the server.",
    access: Access::Cluster(&[Action::GetCmdLineOpts]),
    admin_only: true,
    run: |cx, _, out| {
        let config = &cx.server.config;
        out.array("argv", |argv| config.argv.iter().for_each(|arg| argv.push(arg)));
        out.put("parsed", &config.parsed_options);
        Ok(())
    },
    ..Command::ROW
};
