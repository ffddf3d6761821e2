//! The maximum number of memory maps of a process.
use super::prelude::*;

pub(super) static MAX_MAP_COUNT: Check = Check {
    name: "max_map_count",
    title: "vm.max_map_count",
    reads: &["/proc/sys/vm/max_map_count", limits::TABLE],
    is_measured: false,
    run,
};

/// The thread's stack and its guard page.
const MAPS_A_CONNECTION: u64 = 2;

fn run(facts: &Facts) -> Verdict {
    let count = facts.number("/proc/sys/vm/max_map_count")?;
    let connections = limits::connections(facts)?;
    let needed = connections * MAPS_A_CONNECTION;
    if count >= needed {
        return good(count.to_string());
    }
    found(
        Warning,
        format!("vm.max_map_count is {count}, {connections} connections need {needed}"),
        "the stack of a connection's thread takes two maps; without them new connections fail",
        format!("sysctl -w vm.max_map_count={needed}   (keep it in /etc/sysctl.d)"),
    )
    .logged(
        "CONTROL",
        5_123_300,
        "vm.max_map_count is too low",
        doc! {
            "currentValue": (count as i64),
            "recommendedMinimum": (needed as i64),
            "maxConns": (connections as i64)
        },
    )
    .verdict()
}
