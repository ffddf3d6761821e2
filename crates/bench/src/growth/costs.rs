//! What each piece of work costs, and where the figure is from. docs/scale-out-growth.md has the same table; a test
//! compares them.
use super::kernel::{MS, Ns, US};

/// Where a figure is from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Measured with one node over the placement driver and the store of `tests/tikv`, which is not TiKV.
    Rig,
    /// From figures that others have published of TiKV and PD.
    Published,
    /// Neither: an assumption about machines and networks.
    Assumed,
}

impl Source {
    pub(super) fn name(self) -> &'static str {
        match self {
            Source::Rig => "rig",
            Source::Published => "published",
            Source::Assumed => "assumed",
        }
    }
}

/// A piece of work.
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) ns: Ns,
    pub(super) source: Source,
}

const fn cost(name: &'static str, ns: Ns, source: Source) -> Cost {
    Cost { name, ns, source }
}

/// 253 us of processor time for each point read (one timestamp, two requests), 16 connections, 3,663 reads a second.
pub(super) const NODE_READ: Cost = cost("node: read with three requests", 253 * US, Source::Rig);
/// 583 us for each insert (one timestamp, one read, one phase), 16 connections, 956 inserts a second.
pub(super) const NODE_WRITE: Cost = cost("node: write with three requests", 583 * US, Source::Rig);
/// A third of a read.
pub(super) const NODE_REQUEST: Cost = cost("node: each request beyond three", 84 * US, Source::Rig);
/// Half of the 115 us of the store for a point read, which has two requests.
pub(super) const STORE_READ: Cost = cost("store: a get", 58 * US, Source::Rig);
/// The store's 549 us for an insert, without its read.
pub(super) const STORE_WRITE: Cost =
    cost("store: a prewrite, commit or commit in one phase", 491 * US, Source::Rig);
/// The rig's scan of 100 small entries is 3.7 ms of latency on a loaded machine, no processor time.
pub(super) const STORE_SCAN: Cost = cost("store: a page of a scan", 300 * US, Source::Assumed);
/// 43,200 updates a second over three stores, each a command at three replicas, by the two threads that TiKV has for
/// this by default: 2 / 43,200 s.
pub(super) const RAFT: Cost = cost(
    "store: a command in the log of a region, and its application",
    46 * US,
    Source::Published,
);
/// A read of a replica asks the leader how far it has to wait.
pub(super) const READ_INDEX: Cost =
    cost("store: question of a replica to its leader", 10 * US, Source::Assumed);
/// 67 us of processor time of PD for each timestamp, 3,663 a second, nearly each a message of its own.
pub(super) const PD_MESSAGE: Cost = cost("PD: a message with timestamps", 67 * US, Source::Rig);
/// More than 3 million timestamps a second from one PD, in messages of thousands.
pub(super) const PD_STAMP: Cost = cost("PD: each timestamp in it", 300, Source::Published);
/// Each region tells PD of itself once a minute.
pub(super) const PD_HEARTBEAT: Cost =
    cost("PD: a heartbeat of a region", 100 * US, Source::Assumed);
pub(super) const PD_REGION: Cost = cost("PD: bounds of a region", 100 * US, Source::Assumed);
/// What comes while a message to PD is being sent is in the next one.
pub(super) const NODE_SEND: Cost = cost("node: sending a message to PD", 5 * US, Source::Assumed);
pub(super) const SYNC: Cost = cost("disk: a sync", 200 * US, Source::Assumed);
pub(super) const DISK_READ: Cost = cost("disk: a read", 100 * US, Source::Assumed);
pub(super) const NEAR: Cost = cost("network: one way within a zone", 50 * US, Source::Assumed);
pub(super) const FAR: Cost = cost("network: one way between zones", 250 * US, Source::Assumed);
/// A region that splits answers nothing meanwhile. Three replicas on a loaded machine took up to 8.6 s.
pub(super) const SPLIT: Cost = cost("store: a split of a region", 20 * MS, Source::Assumed);
/// A reader that finds the lock of an unfinished commit asks again.
pub(super) const LOCK_PAUSE: Cost =
    cost("node: pause before a locked key", 2 * MS, Source::Assumed);

pub(super) static COSTS: &[&Cost] = &[
    &NODE_READ,
    &NODE_WRITE,
    &NODE_REQUEST,
    &STORE_READ,
    &STORE_WRITE,
    &STORE_SCAN,
    &RAFT,
    &READ_INDEX,
    &PD_MESSAGE,
    &PD_STAMP,
    &PD_HEARTBEAT,
    &PD_REGION,
    &NODE_SEND,
    &SYNC,
    &DISK_READ,
    &NEAR,
    &FAR,
    &SPLIT,
    &LOCK_PAUSE,
];

// Machines, all assumed: 8 cores for a node and for PD, 16 for a store.
pub(super) const NODE_CORES: usize = 8;
pub(super) const PD_CORES: usize = 8;
pub(super) const STORE_CORES: usize = 16;
/// TiKV's default of `raftstore.store-pool-size` and `apply-pool-size`.
pub(super) const RAFT_THREADS: usize = 2;
/// Reads that a disk does at once.
pub(super) const DISK_READS: usize = 32;
pub(super) const DISK_BYTES_PER_SECOND: u64 = 1_000_000_000;
/// Bytes that the disk writes for each byte of data: the log, and the levels of RocksDB.
pub(super) const AMPLIFICATION: u64 = 10;
/// Memory of a store for blocks.
pub(super) const CACHE_BYTES: f64 = 28e9;
/// TiKV's advice for a store on NVMe disks is 4 TB at most.
pub(super) const STORE_TB: f64 = 4.0;
pub(super) const REPLICAS: usize = 3;
pub(super) const ZONES: usize = 3;

/// As `nagi-bench limit` inserts, with its index entry.
pub(super) const DOCUMENT_BYTES: u64 = 1200;
/// The size at which TiKV up to 8.3 splits a region; 256 later.
pub(super) const REGION_MB: u64 = 96;
/// The client's limit of timestamps in a message.
pub(super) const STAMPS_MAX: usize = 64;
/// Record numbers that a node takes at once at most.
pub(super) const BLOCK: u64 = 4096;
pub(super) const HEARTBEAT_SECONDS: f64 = 60.0;
pub(super) const BOARD_MS: u64 = 100;
/// A lease of ten seconds is renewed every third of it.
pub(super) const RENEWAL_MS: u64 = 3333;
/// Every five seconds a node reads the parts of the counters of others, up to 50,000, 512 in a page.
pub(super) const COUNTS_MS: u64 = 5000;
pub(super) const PARTS_MAX: u64 = 50_000;
pub(super) const PAGE: u64 = 512;
/// Parts of a counter that a node has: its transactions that overlap. Collections that are written to.
pub(super) const PARTS_EACH: u64 = 64;
pub(super) const COLLECTIONS: u64 = 10;
/// Documents whose updates are skewed. More have the same shape: the first has 7 % of the updates of a million, 5 % of
/// those of a hundred million.
pub(super) const SKEWED: u64 = 1_000_000;

/// A length of time, for people.
pub(super) fn shown(ns: Ns) -> String {
    match (ns % MS, ns % US) {
        (0, _) => format!("{} ms", ns / MS),
        (_, 0) => format!("{} us", ns / US),
        _ => format!("{:.1} us", ns as f64 / US as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_these_figures() {
        let page = include_str!("../../../../docs/scale-out-growth.md");
        for cost in COSTS {
            let row = format!("| {} | {} | {} |", cost.name, shown(cost.ns), cost.source.name());
            assert!(page.contains(&row), "not in docs/scale-out-growth.md: {row}");
        }
    }
}
