//! Checks the kernel's policy for memory overcommitment.
use super::prelude::*;

pub(super) static OVERCOMMIT: Check = Check {
    name: "overcommit",
    title: "vm.overcommit_memory",
    reads: &["/proc/sys/vm/overcommit_memory"],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let mode = facts.number("/proc/sys/vm/overcommit_memory")?;
    if mode != 2 {
        return good(mode.to_string());
    }
    found(
        Warning,
        "vm.overcommit_memory is 2",
        "memory that is reserved counts as used: stacks of connections fill the limit long before \
         memory is short, and allocations fail",
        "sysctl -w vm.overcommit_memory=0   (keep it in /etc/sysctl.d)",
    )
    .logged_as_found("CONTROL", 8_210_019)
    .verdict()
}
