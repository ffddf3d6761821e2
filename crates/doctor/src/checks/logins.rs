//! Checks that a server that other machines can reach asks for a login.
use super::prelude::*;

pub(super) static LOGINS: Check =
    Check { name: "logins", title: "logins of clients", reads: &[], is_measured: false, run };

fn run(facts: &Facts) -> Verdict {
    let exposure = facts.exposure()?;
    match (&exposure.reachable_at, exposure.has_logins) {
        (_, true) => good("clients must log in"),
        (None, false) => good("no login, but only this machine can connect"),
        (Some(place), false) => found(
            Critical,
            format!("other machines can reach the server at {place}, and it asks for no login"),
            "everyone who reaches the port can read and erase all data; programs that scan the Internet find such a \
             server within hours",
            "security.authorization: enabled, or net.bindIp: 127.0.0.1",
        )
        .verdict(),
    }
}
