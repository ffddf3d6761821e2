//! Checks if memory of the server, or much of the machine's memory, is in swap.
use super::prelude::*;

pub(super) static SWAP: Check = Check {
    name: "swap",
    title: "use of swap",
    reads: &["/proc/meminfo", "/proc/self/status"],
    is_measured: false,
    run,
};

/// Any machine swaps out less than this over time.
const SERVER_MAX: u64 = 16 << 20;

fn run(facts: &Facts) -> Verdict {
    let total = facts.kib_field("/proc/meminfo", "SwapTotal")?;
    if total == 0 {
        return good("no swap");
    }
    let used = total.saturating_sub(facts.kib_field("/proc/meminfo", "SwapFree")?);
    let own = facts.kib_field("/proc/self/status", "VmSwap").unwrap_or(0);
    if facts.server_pid.is_some() && own > SERVER_MAX {
        return found(
            Warning,
            format!("{} of the server's memory are in swap", bytes(own)),
            "a cache that is read back from swap is slower than no cache",
            "lower vm.swappiness or storage.wiredTiger.engineConfig.cacheSizeGB, or add memory",
        )
        .verdict();
    }
    if percent(used, total) >= 50.0 {
        return found(
            Note,
            format!("{} of {} swap are used", bytes(used), bytes(total)),
            "the machine is or was short of memory; swapped pages are read back by one page fault \
             each",
            "free -m; lower storage.wiredTiger.engineConfig.cacheSizeGB, or add memory",
        )
        .verdict();
    }
    good(format!("{} of {} used", bytes(used), bytes(total)))
}
