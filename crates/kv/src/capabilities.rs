//! The promises of an engine beyond the contract, which hold because it lives in one process.
//!
//! A distributed engine, to which other processes write as well, lacks most of them. This list says what depends on
//! each promise. What the store does without it is in docs/scale-out.md and decision 099.
//!
//! - `one_order`: exact stamps of snapshots, `Engine::advance`, cluster times (`nagi_store::commit::stamps`).
//! - `adds_commute`: counts and sizes of a collection in one counter, since `Txn::add` never conflicts.
//! - `appends_by_stamp`: the change log of a replica set, whose keys are commit stamps. Without it nodes list their
//!   commits afterwards (decision 111).
//! - `only_writer`: idents and record ids counted in memory, ceilings of ascending ids, multikey bits, the record
//!   cache, gates of DDL, the conflict table.
//! - `conflicts_at_once`: writes in groups and statements that go on after a lock without fear of the commit.
//! - `drops_at_once`: collections and indexes that are dropped while a client waits.
//! - `links_files`: `checkpoint` with hard links, so that a backup needs no second copy on the disk.
//!
//! One is of distributed engines only: `splits_ranges`, for collections that are spread over machines while they are
//! empty.

/// See the module's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// All commits have one order, in which they become visible, and the engine assigns their stamps.
    pub one_order: bool,
    /// `Txn::add` never conflicts.
    pub adds_commute: bool,
    /// `Txn::append` builds keys from the commit's stamp. Without it, a commit with appended entries fails.
    pub appends_by_stamp: bool,
    /// No other process writes to the store.
    pub only_writer: bool,
    /// `Txn::put`, `delete` and `lock` find conflicts when they are called, and wait for other holders. A commit of
    /// keys that were locked before anything was read does not conflict. Without it, conflicts are found by the
    /// commit, also those with commits since the first operation of a transaction that has read nothing.
    pub conflicts_at_once: bool,
    /// `Maintenance::drop_range` takes milliseconds. Without it, its time is in proportion to the number of keys.
    pub drops_at_once: bool,
    /// `Maintenance::checkpoint` works, and links files where it can.
    pub links_files: bool,
    /// Ranges of keys are placed on machines of their own, and `Maintenance::split_at` ends one where it is told to.
    pub splits_ranges: bool,
}

impl Capabilities {
    /// The capabilities of an engine in this process.
    pub const IN_PROCESS: Capabilities = Capabilities {
        one_order: true,
        adds_commute: true,
        appends_by_stamp: true,
        only_writer: true,
        conflicts_at_once: true,
        drops_at_once: true,
        links_files: true,
        splits_ranges: false,
    };

    /// Those of an engine that promises only the contract.
    pub const NONE: Capabilities = Capabilities {
        one_order: false,
        adds_commute: false,
        appends_by_stamp: false,
        only_writer: false,
        conflicts_at_once: false,
        drops_at_once: false,
        links_files: false,
        splits_ranges: false,
    };

    /// The first capability of `needed` that is missing here.
    pub fn missing(&self, needed: &Capabilities) -> Option<&'static str> {
        let all = [
            (needed.one_order, self.one_order, "one order of commits"),
            (needed.adds_commute, self.adds_commute, "counters that never conflict"),
            (needed.appends_by_stamp, self.appends_by_stamp, "logs by stamp"),
            (needed.only_writer, self.only_writer, "being the only writer"),
            (needed.conflicts_at_once, self.conflicts_at_once, "conflicts before the commit"),
            (needed.drops_at_once, self.drops_at_once, "drops of ranges at once"),
            (needed.links_files, self.links_files, "checkpoints"),
            (needed.splits_ranges, self.splits_ranges, "splits of ranges"),
        ];
        all.into_iter().find(|(needed, has, _)| *needed && !*has).map(|(_, _, what)| what)
    }
}
