//! Available memory.
use super::prelude::*;

pub(super) static MEMORY: Check = Check {
    name: "memory",
    title: "memory left",
    reads: &["/proc/meminfo", "/proc/self/status"],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let total = facts.kib_field("/proc/meminfo", "MemTotal")?;
    let available = facts.kib_field("/proc/meminfo", "MemAvailable")?;
    let server = match facts.server_pid {
        Some(_) => facts.kib_field("/proc/self/status", "VmRSS").ok(),
        None => None,
    };
    let mut text = format!("{} of {} are available", bytes(available), bytes(total));
    if let Some(server) = server {
        text.push_str(&format!(", the server has {}", bytes(server)));
    }
    let severity = match percent(available, total) {
        share if share < 3.0 => Warning,
        share if share < 10.0 => Note,
        _ => return good(text),
    };
    let finding = found(
        severity,
        format!("Memory is short: {text}"),
        "the kernel reclaims, swaps or kills the largest process, which is the database",
        "lower storage.wiredTiger.engineConfig.cacheSizeGB, stop other processes that need memory, \
         or add memory",
    );
    match severity {
        Note => finding.verdict(),
        _ => finding.logged_as_found("CONTROL", 8_210_021).verdict(),
    }
}
