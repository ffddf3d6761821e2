//! The limit of the address space (`ulimit -v`).
use super::prelude::*;

pub(super) static ADDRESS_SPACE: Check = Check {
    name: "address_space",
    title: "limit of virtual memory",
    reads: &[limits::TABLE],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let limit = limits::limit(facts, "Max address space")?.soft;
    if limit == u64::MAX {
        return good("unlimited");
    }
    found(
        Warning,
        format!("Virtual memory of the process is limited to {}", bytes(limit)),
        "stacks of connections and the allocator reserve far more addresses than they use memory; at \
         the limit, connections are refused and allocations fail",
        "ulimit -v unlimited   (systemd: LimitAS=infinity)",
    )
    .logged_as_found("CONTROL", 8_210_001)
    .verdict()
}
