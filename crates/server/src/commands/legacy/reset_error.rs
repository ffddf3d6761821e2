//! `resetError`: forgets the last legacy write of this connection.

use crate::command::prelude::*;

pub(in crate::commands) static RESET_ERROR: Command = Command {
    name: "resetError",
    aliases: &["reseterror"],
    help: "Forgets the outcome of the last legacy write of this connection.",
    before_login: true,
    run: |cx, _, _| {
        cx.connection.last_write = Default::default();
        Ok(())
    },
    ..Command::ROW
};
