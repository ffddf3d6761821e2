//! The memory limits of a control group.
use super::prelude::*;
use nagi_proc::cgroup::Version;

pub(super) static CGROUP_MEMORY: Check = Check {
    name: "cgroup_memory",
    title: "memory limit of the control group",
    reads: &[cgroup::MEMBERSHIP, mounts::PATH, "/proc/meminfo"],
    is_measured: false,
    run,
};

/// Below this limit the cache and the write buffers at their minimum sizes do not fit together with some
/// connections.
const LEAST: u64 = 512 << 20;

fn run(facts: &Facts) -> Verdict {
    let Some(groups) = cgroup::groups(facts, "memory")? else {
        return good("no control group");
    };
    let file = groups.version.memory_limit_file();
    let soft_file = (groups.version == Version::Two).then_some("memory.high");
    let machine = facts.kib_field("/proc/meminfo", "MemTotal").unwrap_or(u64::MAX);
    // Version 1 writes a number larger than any machine's memory for "no limit".
    let hard = cgroup::least(facts, &groups, file).filter(|(limit, _)| *limit < machine);
    let soft = soft_file.and_then(|file| cgroup::least(facts, &groups, file));
    let hard_limit = hard.as_ref().map_or(machine, |(limit, _)| *limit);
    if let Some((soft, path)) = soft.filter(|(soft, _)| *soft < hard_limit) {
        return found(
            Warning,
            format!("The control group is slowed down from {} of memory", bytes(soft)),
            "above memory.high every allocation waits for reclaim, before any limit the server could \
             see; operations stall without an error",
            format!("echo max > {path}"),
        )
        .logged_as_found("CONTROL", 8_210_002)
        .verdict();
    }
    match hard {
        None => good("no limit"),
        Some((limit, path)) if limit < LEAST => found(
            Warning,
            format!("The control group allows only {} of memory", bytes(limit)),
            "the smallest cache, the write buffers and the connections need more, and the kernel \
             would kill the server",
            format!("echo {} > {path}   (or --memory of the container)", 1_u64 << 30),
        )
        .logged_as_found("CONTROL", 8_210_003)
        .verdict(),
        Some((limit, _)) => good(format!("{} (the default cache follows it)", bytes(limit))),
    }
}
