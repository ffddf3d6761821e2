//! Checks that JavaScript of clients does not run in a server that other machines can reach, unless it is needed.
use super::prelude::*;

pub(super) static JAVASCRIPT: Check = Check {
    name: "javascript",
    title: "JavaScript of clients",
    reads: &[],
    is_measured: false,
    run,
};

const WHY: &str = "programs of clients use its processors and memory, and a fault of the engine is one of the server";
const FIX: &str = "security.javascriptEnabled: false, if no application uses $where, $function, $accumulator or \
    mapReduce";

fn run(facts: &Facts) -> Verdict {
    let exposure = facts.exposure()?;
    let Some(place) = exposure.reachable_at.as_ref().filter(|_| exposure.has_javascript) else {
        return good(match exposure.has_javascript {
            true => "enabled, but only this machine can connect",
            false => "off",
        });
    };
    match exposure.has_logins {
        true => found(
            Note,
            format!("users on other machines can run JavaScript in the server at {place}"),
            WHY,
            FIX,
        ),
        false => found(
            Warning,
            format!("everyone who reaches {place} can run JavaScript in the server"),
            WHY,
            FIX,
        ),
    }
    .verdict()
}
