//! `top`: the time and number of operations per collection.

use crate::core::command::prelude::*;

pub(in crate::commands) static TOP: Command = Command {
    facts: Facts { name: "top", help: "Time spent by collection.", admin_only: true, ..Facts::ROW },
    access: Access::Cluster(&[Action::Top]),
    run: |cx, _, out| {
        cx.server.top.write(out);
        Ok(())
    },
    ..Command::ROW
};
