//! Memory that is divided into several NUMA nodes.
use super::prelude::*;

pub(super) static NUMA: Check = Check {
    name: "numa",
    title: "NUMA and zone reclaim",
    reads: &["/sys/devices/system/node/online", "/proc/sys/vm/zone_reclaim_mode"],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let online = facts.text("/sys/devices/system/node/online")?;
    if !online.contains(['-', ',']) {
        return good("one node");
    }
    let reclaim = facts.number("/proc/sys/vm/zone_reclaim_mode").unwrap_or(0);
    if reclaim != 0 {
        return found(
            Warning,
            format!("vm.zone_reclaim_mode is {reclaim} on a NUMA machine"),
            "a node that is full drops its page cache, or swaps, while other nodes have free memory",
            "sysctl -w vm.zone_reclaim_mode=0   (keep it in /etc/sysctl.d)",
        )
        .logged_as_found("CONTROL", 8_210_018)
        .verdict();
    }
    found(
        Note,
        format!("Memory is in several NUMA nodes ({online})"),
        "the cache is filled by whichever thread comes first, so one node may be full while others \
         have free memory",
        "numactl --interleave=all nagi serve ...",
    )
    .verdict()
}
