//! Checks that the server has a user of its own.
use super::prelude::*;

pub(super) static SUPERUSER: Check =
    Check { name: "superuser", title: "user of the server", reads: &[], is_measured: false, run };

fn run(facts: &Facts) -> Verdict {
    let data = facts.data()?;
    if !data.is_there {
        return Err(NotKnown(format!("{} does not exist", data.path)));
    }
    match data.is_roots {
        false => good("not root"),
        true => found(
            Warning,
            format!("{} belongs to root, so the server runs as root", data.path),
            "an attacker who finds a fault in the server has the whole machine, not only the data",
            format!("run the server as a user of its own: chown -R nagi: {0}", data.path),
        )
        .verdict(),
    }
}
