//! `getnonce`: drivers of 2010-2014 ask before anything else; the number is used by nothing.

use crate::core::command::prelude::*;

pub(in crate::commands) static GETNONCE: Command = Command {
    facts: Facts {
        name: "getnonce",
        help: "A random number for an authentication mechanism of the past.",
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
