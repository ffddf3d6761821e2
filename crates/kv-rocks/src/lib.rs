//! The embedded engine on RocksDB.
//!
//! There is one column family for each space. Transactions are those of `nagi_kv::overlay`. A commit is one write
//! batch, written under the commit lock, which also assigns stamps; so stamps, log keys and counters are in commit
//! order without further ordering. Counters are written as sums, not as merge operands: the sum is known under that
//! lock, and reads need not fold operands.
//!
//!   commit --> engine.rs: batch --(commit lock)--> RocksDB: log + memtable --> published
//!                                                     |
//!   nagi_kv_disk::journal: a thread, each commit interval -------+--> fsync --> wakes waiters of `Synced`
//!
//! Files:
//!
//! - `commit.rs`, `state.rs`: the commit path; snapshots, and the exact stamp of each
//! - `reclaim.rs`: a thread that rewrites dropped ranges to release their space
//! - `upkeep.rs`: a thread that decides which new blocks are cached, and flushes deletions
//! - `warm_up.rs`: a thread that fills the cache after a start, and when data that fits into it is not in it
//! - `layout.rs`, `range_sizes.rs`, `rewrite.rs`: the size of ranges on disk and in the cache, and rewriting them with
//!   progress and cancellation
//! - `load.rs`: bulk loads as table files, which bypass log and memtables
//! - `capacity/`: limits of the machine (files, direct I/O, disk size); opening on a full disk
//! - `governor.rs`: limits background work, and slows commits down before RocksDB would stop them
//! - `ring_buffer/`: the write-ahead ring buffer between commits and the log's files, so that no commit waits for the
//!   file system
//! - `closed.rs`: the record of files at an orderly shutdown; `damage.rs`: the places where RocksDB found damage
//! - `quarantine.rs`: damage met by compactions, and the spaces whose compactions are suspended; `flushes.rs`: the
//!   times of flushes
//! - `large_commits.rs`: commits of many bytes wait for flushes
//! - `work_memory.rs`: the memory of flushes and compactions of large values; `large_reads.rs`: that of reads;
//!   `large_flushes.rs`: spaces with large values, of which few files are merged at once
//! - `repair/`: copies the readable data of a damaged data directory to a new one
//! - `encrypted/`: files that are encrypted at rest
//! - `wal/`: checks that the log left by a crash has everything that was synced
//! - `db/`: the only `unsafe` code; RocksDB's C interface behind safe types
//!
//! Stamps are times. RocksDB stores only those of the change log: after a restart new stamps are greater than these
//! and follow the wall clock. The caller that opens the engine advances it beyond other earlier stamps
//! (`nagi_store::stamps` does).
//!
//! The engine does not know documents or collections.

mod capacity;
mod closed;
mod commit;
mod damage;
mod db;
mod disk_map;
mod encrypted;
mod engine;
mod events;
mod flushes;
mod found;
mod governor;
mod large_commits;
mod large_flushes;
mod large_reads;
mod layout;
mod load;
mod options;
mod quarantine;
mod range_sizes;
mod reclaim;
mod repair;
mod rewrite;
mod ring_buffer;
mod state;
mod stats;
mod tier;
mod upkeep;
mod wal;
mod warm_up;
mod work_memory;

#[doc(hidden)]
pub use db::make_unreadable;
pub use engine::{Rocks, open};
pub use found::{Examined, examine};
pub use large_reads::{Earlier, Gate, attach_large_reads};
pub use options::Options;
pub use repair::{Lost, Repair, repair};
pub use work_memory::{WorkCharge, WorkMemory};
