//! Checks that commands for tests are off.
use super::prelude::*;

pub(super) static TEST_COMMANDS: Check = Check {
    name: "test_commands",
    title: "commands for tests",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let exposure = facts.exposure()?;
    match exposure.has_test_commands {
        false => good("off"),
        true => found(
            Warning,
            "enableTestCommands is on",
            "a client with the privileges of an administrator can make this server stall and fail",
            "remove setParameter.enableTestCommands from the configuration file",
        )
        .verdict(),
    }
}
