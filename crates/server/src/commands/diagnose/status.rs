//! Figures of the process and the machine, in the units that replies have.

use nagi_proc::{Process, Status, limits, meminfo};

use crate::core::server::Server;

/// Size of a page of memory.
pub(super) const PAGE_BYTES: i64 = nagi_proc::PAGE_BYTES as i64;

fn int(n: Option<u64>) -> i64 {
    n.and_then(|n| i64::try_from(n).ok()).unwrap_or(0)
}

fn kib(bytes: Option<u64>) -> i64 {
    int(bytes.map(|bytes| bytes / 1024))
}

fn own() -> Status {
    Process::Own.status().unwrap_or_default()
}

pub(super) fn memory_total_kb() -> i64 {
    kib(meminfo::read().total)
}

/// Resident and virtual memory of the process in KiB, and its number of threads.
pub(super) fn process() -> (i64, i64, i64) {
    let own = own();
    (kib(own.resident_bytes), kib(own.virtual_bytes), int(own.thread_count))
}

/// The highest resident memory so far, in KiB.
pub(super) fn peak_resident_kb() -> i64 {
    kib(own().resident_bytes_max)
}

/// Counts of voluntary and involuntary context switches.
pub(super) fn context_switches() -> (i64, i64) {
    let own = own();
    (int(own.voluntary_switches), int(own.involuntary_switches))
}

/// Page faults that needed no disk.
pub(super) fn page_reclaims() -> i64 {
    int(Process::Own.stat().map(|stat| stat.minor_faults))
}

/// Blocks of 512 bytes that the process has read from disks and has written to them.
pub(super) fn disk_blocks() -> (i64, i64) {
    let blocks = |bytes: Option<u64>| int(bytes.map(|bytes| bytes / 512));
    (blocks(Process::Own.read_bytes()), blocks(Process::Own.written_bytes()))
}

/// Major page faults, user and system time in microseconds.
pub(super) fn faults_and_times() -> (i64, i64, i64) {
    let us = |ticks: u64| int(ticks.checked_mul(nagi_proc::stat::TICK_US));
    Process::Own.stat().map_or((0, 0, 0), |stat| {
        (int(Some(stat.major_faults)), us(stat.user_ticks), us(stat.system_ticks))
    })
}

pub(super) fn core_count() -> i32 {
    i32::try_from(nagi_proc::machine::processor_count()).unwrap_or(i32::MAX)
}

/// The soft limit of open files.
pub(super) fn open_file_limit() -> i64 {
    int(limits::open_files().map(|limit| limit.soft))
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
