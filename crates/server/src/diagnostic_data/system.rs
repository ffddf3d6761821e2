//! What Linux says of the machine, in the section `systemMetrics` of a sample, with MongoDB's names.

use nagi_bson::DocWriter;
use nagi_proc::stat::TICK_US;
use nagi_proc::{counters, limits, machine};

/// The figures of `/proc/meminfo` that are recorded.
static MEMORY: &[&str] = &[
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Cached",
    "Dirty",
    "Writeback",
    "Buffers",
    "SwapTotal",
    "SwapFree",
    "SwapCached",
    "Active",
    "Inactive",
    "Active(anon)",
    "Inactive(anon)",
    "Active(file)",
    "Inactive(file)",
    "AnonPages",
    "Mapped",
    "Shmem",
    "Slab",
    "PageTables",
    "AnonHugePages",
];

/// Those of `/proc/vmstat`: faults, swap, reclaim and waits for it.
static VMSTAT: &[&str] = &[
    "nr_dirty",
    "nr_writeback",
    "pgfault",
    "pgmajfault",
    "pswpin",
    "pswpout",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "allocstall_normal",
    "allocstall_movable",
    "compact_stall",
    "oom_kill",
    "thp_fault_alloc",
];

/// Tables of `/proc/net/netstat` and `/proc/net/snmp`.
static NETWORK: &[&str] = &["Ip", "IpExt", "Tcp", "TcpExt"];

/// The resources of `ulimits`, with the names that Linux has for them.
static RESOURCES: &[(&str, &str)] = &[
    ("cpuTime_secs", "Max cpu time"),
    ("fileSize_blocks", "Max file size"),
    ("dataSegSize_kb", "Max data size"),
    ("stackSize_kb", "Max stack size"),
    ("coreFileSize_blocks", "Max core file size"),
    ("residentSize_kb", "Max resident set"),
    ("fileDescriptors", "Max open files"),
    ("addressSpace_kb", "Max address space"),
    ("processes", "Max processes"),
    ("memLock_kb", "Max locked memory"),
    ("fileLocks", "Max file locks"),
    ("pendingSignals", "Max pending signals"),
];

/// Writes the sections. Costs some ten reads of files of the kernel.
pub(crate) fn write_system_metrics(out: &mut DocWriter<'_>) {
    out.doc("cpu", cpu);
    out.doc("memory", |out| chosen(out, "/proc/meminfo", MEMORY, true));
    out.doc("vmstat", |out| chosen(out, "/proc/vmstat", VMSTAT, false));
    out.doc("netstat", network);
    out.doc("disks", disks);
    out.doc("files", |out| {
        if let Some([allocated, free, _]) = file_handles() {
            put(out, "sys_file_handles_in_use", allocated.saturating_sub(free));
        }
    });
    out.doc("pressure", pressure);
}

/// The machine's limit of open files.
pub(crate) fn write_open_files_max(out: &mut DocWriter<'_>) {
    if let Some([.., max]) = file_handles() {
        put(out, "sys_max_file_handles", max);
    }
}

/// The limits of this process; -1 is none. As in mongod, the numbers are those of the system, whatever unit is in the
/// name.
pub(crate) fn write_ulimits(out: &mut DocWriter<'_>) {
    let text = nagi_proc::text(limits::PATH).unwrap_or_default();
    for (name, line) in RESOURCES {
        if let Some(limit) = limits::parse(&text, line) {
            out.doc(name, |out| {
                out.put("soft", limit.soft as i64);
                out.put("hard", limit.hard as i64);
            });
        }
    }
}

/// Allocated and free file handles of the machine, and their limit.
fn file_handles() -> Option<[u64; 3]> {
    let text = nagi_proc::text("/proc/sys/fs/file-nr")?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

fn put(out: &mut DocWriter<'_>, name: &str, value: u64) {
    out.put(name, i64::try_from(value).unwrap_or(i64::MAX));
}

fn cpu(out: &mut DocWriter<'_>) {
    const TIMES: [&str; 10] = [
        "user",
        "nice",
        "system",
        "idle",
        "iowait",
        "irq",
        "softirq",
        "steal",
        "guest",
        "guest_nice",
    ];
    put(out, "num_cpus", machine::processor_count() as u64);
    let text = nagi_proc::text("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().unwrap_or("").split_whitespace().skip(1);
    for (name, ticks) in TIMES.iter().zip(ticks.map_while(|ticks| ticks.parse::<u64>().ok())) {
        put(out, &format!("{name}_ms"), ticks.saturating_mul(TICK_US / 1000));
    }
    for (name, value) in counters::pairs(&text) {
        if ["ctxt", "btime", "processes", "procs_running", "procs_blocked"].contains(&name) {
            put(out, name, value);
        }
    }
}

/// The figures of `names`, in the order of the file.
fn chosen(out: &mut DocWriter<'_>, path: &str, names: &[&str], sizes: bool) {
    let text = nagi_proc::text(path).unwrap_or_default();
    let is_chosen = |(name, _): &(&str, u64)| names.contains(name);
    if sizes {
        for (name, kib) in counters::sizes_kib(&text).filter(is_chosen) {
            put(out, &format!("{name}_kb"), kib);
        }
    } else {
        counters::pairs(&text).filter(is_chosen).for_each(|(name, value)| put(out, name, value));
    }
}

fn network(out: &mut DocWriter<'_>) {
    for path in ["/proc/net/netstat", "/proc/net/snmp"] {
        let text = nagi_proc::text(path).unwrap_or_default();
        for (table, name, value) in counters::columns(&text) {
            if NETWORK.contains(&table) {
                out.put(&format!("{table}:{name}"), value);
            }
        }
    }
}

/// Whole disks that have hardware or a hypervisor behind them: no partitions, loop or RAM devices.
fn disks(out: &mut DocWriter<'_>) {
    let text = nagi_proc::text("/proc/diskstats").unwrap_or_default();
    for disk in counters::disks(&text) {
        if !std::path::Path::new("/sys/block").join(disk.name).join("device").exists() {
            continue;
        }
        out.doc(disk.name, |out| {
            put(out, "reads", disk.reads);
            put(out, "reads_merged", disk.reads_merged);
            put(out, "read_sectors", disk.read_sectors);
            put(out, "read_time_ms", disk.read_time_ms);
            put(out, "writes", disk.writes);
            put(out, "writes_merged", disk.writes_merged);
            put(out, "write_sectors", disk.write_sectors);
            put(out, "write_time_ms", disk.write_time_ms);
            put(out, "io_in_progress", disk.io_in_progress);
            put(out, "io_time_ms", disk.io_time_ms);
            put(out, "io_queued_ms", disk.io_queued_ms);
        });
    }
}

fn pressure(out: &mut DocWriter<'_>) {
    for resource in ["cpu", "memory", "io"] {
        let text = nagi_proc::text(format!("/proc/pressure/{resource}")).unwrap_or_default();
        let (some, full) = counters::stalled_us(&text);
        out.doc(resource, |out| {
            for (kind, total) in [("some", some), ("full", full)] {
                if let Some(micros) = total {
                    out.doc(kind, |out| put(out, "totalMicros", micros));
                }
            }
        });
    }
}
