//! `getnonce`: returns a random number. Drivers of 2010-2014 send it first; nothing uses the number.

use crate::core::command::prelude::*;

pub(in crate::commands) static GETNONCE: Command = Command {
    facts: Facts {
        name: "getnonce",
        help: "Returns a nonce for an authentication mechanism that was removed.",
        before_login: true,
        ..Facts::ROW
    },
    run: |_, _, out| {
        let bytes = crate::random::random_bytes()?;
        out.put("nonce", &nagi_bson::text::Hex(&bytes[..8]).to_string());
        Ok(())
    },
    ..Command::ROW
};
