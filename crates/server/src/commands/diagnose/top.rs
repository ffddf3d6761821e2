//! `top`: time and number of operations by collection.

use crate::command::prelude::*;

pub(in crate::commands) static TOP: Command = Command {
    name: "top",
    help: "Time spent by collection.",
    access: Access::Cluster(&[Action::Top]),
    admin_only: true,
    run: |cx, _, out| {
        cx.server.top.write(out);
        Ok(())
    },
    ..Command::ROW
};
