//! What an engine promises beyond the contract because it lives in this process alone.
//!
//! The store above relies on these promises today. A distributed engine, where other processes write as well,
//! lacks most of them; what stands on each one is listed here, so that it is known what has to be done
//! another way there.
//!
//! - `one_order`: exact stamps of snapshots, `Engine::advance`, cluster times (`nagi_store::commit::stamps`).
//! - `adds_commute`: counts and sizes of a collection in one counter, since `Txn::add` never conflicts.
//! - `appends_by_stamp`: the change log, whose keys are the stamps of commits, known only at the commit.
//! - `only_writer`: idents and record ids counted in memory, ceilings of rising ids, multikey bits, the record
//!   cache, gates of DDL, the conflict table.
//! - `links_files`: `checkpoint` by hard links, so that a backup needs no second copy on the disk.

/// See the module's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// All commits have one order, in which they become visible, and the engine gives their stamps.
    pub one_order: bool,
    /// `Txn::add` never conflicts.
    pub adds_commute: bool,
    /// `Txn::append` makes keys of the commit's stamp.
    pub appends_by_stamp: bool,
    /// No other process writes to the store.
    pub only_writer: bool,
    /// `Maintenance::checkpoint` works, and links files where it can.
    pub links_files: bool,
}

impl Capabilities {
    /// Of an engine in this process.
    pub const IN_PROCESS: Capabilities = Capabilities {
        one_order: true,
        adds_commute: true,
        appends_by_stamp: true,
        only_writer: true,
        links_files: true,
    };

    /// The first capability of `needed` that these lack.
    pub fn missing(&self, needed: &Capabilities) -> Option<&'static str> {
        let all = [
            (needed.one_order, self.one_order, "one order of commits"),
            (needed.adds_commute, self.adds_commute, "counters that never conflict"),
            (needed.appends_by_stamp, self.appends_by_stamp, "logs by stamp"),
            (needed.only_writer, self.only_writer, "being the only writer"),
            (needed.links_files, self.links_files, "checkpoints"),
        ];
        all.into_iter().find(|(needed, has, _)| *needed && !*has).map(|(_, _, what)| what)
    }
}
