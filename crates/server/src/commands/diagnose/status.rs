//! Figures of the process and the machine, from `/proc`.

use std::fs;

use crate::core::server::Server;

/// The size of a memory page on each machine that this server is built for.
pub(super) const PAGE_BYTES: i64 = 4096;

/// The number after `name:` in a `/proc` file, in the unit of the file.
fn proc_number(path: &str, name: &str) -> Option<i64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(super) fn memory_total_kb() -> i64 {
    proc_number("/proc/meminfo", "MemTotal").unwrap_or(0)
}

/// Resident and virtual memory of the process in KiB, and its number of threads.
pub(super) fn process() -> (i64, i64, i64) {
    let number = |name: &str| proc_number("/proc/self/status", name).unwrap_or(0);
    (number("VmRSS"), number("VmSize"), number("Threads"))
}

/// The highest resident memory so far, in KiB.
pub(super) fn peak_resident_kb() -> i64 {
    proc_number("/proc/self/status", "VmHWM").unwrap_or(0)
}

/// Counts of voluntary and involuntary context switches.
pub(super) fn context_switches() -> (i64, i64) {
    let number = |name: &str| proc_number("/proc/self/status", name).unwrap_or(0);
    (number("voluntary_ctxt_switches"), number("nonvoluntary_ctxt_switches"))
}

/// Major page faults, and user and system time in microseconds (from clock ticks of 10 ms).
pub(super) fn faults_and_times() -> (i64, i64, i64) {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may contain spaces, so the fields are counted from its closing parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |at: usize| -> i64 {
        fields.split_whitespace().nth(at).and_then(|f| f.parse().ok()).unwrap_or(0)
    };
    (field(9), field(11) * 10_000, field(12) * 10_000)
}

pub(super) fn core_count() -> i32 {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().filter(|line| line.starts_with("processor")).count().max(1) as i32
}

/// The soft limit of open files.
pub(super) fn open_file_limit() -> i64 {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The name and version of the Linux distribution.
pub(super) fn os_release() -> (String, String) {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or("").trim_matches('"').to_owned()
    };
    (value("NAME"), value("VERSION_ID"))
}

/// Used and total bytes of the file system with the data directory, as the engine reports them.
pub(super) fn disk(server: &Server) -> Option<(i64, i64)> {
    let (mut free, mut total) = (None, None);
    server.store.engine().stats(&mut |name, value| match name {
        "disk_free_bytes" => free = Some(value),
        "disk_total_bytes" => total = Some(value),
        _ => {}
    });
    total.zip(free).map(|(total, free)| (total - free, total))
}
