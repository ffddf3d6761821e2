//! Checks that connections of other machines are encrypted.
use super::prelude::*;

pub(super) static ENCRYPTION: Check = Check {
    name: "encryption",
    title: "encryption of connections",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let exposure = facts.exposure()?;
    match (&exposure.reachable_at, exposure.requires_tls) {
        (_, true) => good("connections without TLS are refused"),
        (None, false) => good("only this machine can connect"),
        (Some(place), false) => found(
            Warning,
            format!("other machines can reach the server at {place}, and connections need no TLS"),
            "the documents can be read, and changed on their way, by everyone who sees the packets",
            "net.tls.mode: requireTLS with net.tls.certificateKeyFile",
        )
        .verdict(),
    }
}
