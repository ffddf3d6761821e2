//! `getCmdLineOpts`: the command line and configuration of the server.

use crate::core::command::prelude::*;

pub(in crate::commands) static GET_CMD_LINE_OPTS: Command = Command {
    facts: Facts {
        name: "getCmdLineOpts",
        help: "Command line and configuration of the server.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetCmdLineOpts]),
    run: |cx, _, out| {
        let config = &cx.server.config;
        out.array("argv", |argv| config.argv.iter().for_each(|arg| argv.push(arg)));
        out.put("parsed", &config.parsed_options);
        Ok(())
    },
    ..Command::ROW
};
