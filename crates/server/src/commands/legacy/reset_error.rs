//! `resetError`: clears the result of the last legacy write on this connection.

use crate::core::command::prelude::*;

pub(in crate::commands) static RESET_ERROR: Command = Command {
    facts: Facts {
        name: "resetError",
        aliases: &["reseterror"],
        help: "Clears the outcome of the last legacy write of this connection.",
        before_login: true,
        ..Facts::ROW
    },
    run: |cx, _, _| {
        cx.connection.last_write = Default::default();
        Ok(())
    },
    ..Command::ROW
};
