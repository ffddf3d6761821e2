//! The server's memory budget, compared with the memory that it may use.
use super::prelude::*;

pub(super) static MEMORY_BUDGET: Check = Check {
    name: "memory_budget",
    title: "memory budget of the server",
    reads: &[cgroup::MEMBERSHIP, mounts::PATH, "/proc/meminfo"],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let budget = facts.budget_bytes;
    if budget == 0 {
        return Err(NotKnown("the server's memory budget is not known".into()));
    }
    let machine = facts.kib_field("/proc/meminfo", "MemTotal")?;
    let group = cgroup::groups(facts, "memory").ok().flatten().and_then(|groups| {
        cgroup::least(facts, &groups, groups.version.memory_limit_file()).map(|(limit, _)| limit)
    });
    let (most, owner) = match group.filter(|limit| *limit < machine) {
        Some(limit) => (limit, "the control group"),
        None => (machine, "the machine"),
    };
    if budget <= most {
        return good(format!("{} of {}", bytes(budget), bytes(most)));
    }
    found(
        Warning,
        format!("The memory budget of {} exceeds the {} of {owner}", bytes(budget), bytes(most)),
        "the caches grow until the kernel swaps or ends the server",
        "lower storage.cacheSizeGB (--cacheSizeGB), or leave it out: the default fits the machine",
    )
    .logged_as_found("CONTROL", 8_210_022)
    .verdict()
}
