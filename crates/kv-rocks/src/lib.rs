//! The embedded engine on RocksDB.
//!
//! One column family a space. Transactions are `nagi_kv::overlay`'s; a commit is one write batch,
//! written under one lock that also hands out stamps, so stamps, log keys and counters are in
//! commit order without any ordering work of their own. Counters are written as sums, not as
//! merges: the sum is known under that lock, and a read never has to fold operands.
//!
//!   commit --> engine.rs: batch --(commit lock)--> RocksDB: log + memtable --> published
//!                                                     |
//!   nagi_kv_disk::journal: a thread, each commit interval -------+--> fsync --> waiters of `Synced`
//!   reclaim.rs: a thread that rewrites dropped ranges, so that their space comes back,
//!      and decides what goes to the cache unasked
//!   layout.rs, rewrite.rs: what a range takes on disk, and rewriting it while somebody watches
//!   load.rs: bulk loads as table files, past log and memtables
//!   room/: what the machine lets the engine have; opening on a full disk
//!   governor.rs: background work keeps out of the way; commits slow down before they would stop
//!   spool/: the log's way to the disk, so that no commit waits for the file system
//!   closed.rs: what the folder held at an end in order; damage.rs: where RocksDB found damage
//!   quarantine.rs: what compactions met, and which spaces rest therefore
//!   repair/: what can be read of a damaged folder, as a new one
//!   wal/: whether the log that a crash left has everything that was synced
//!   db/: the only `unsafe`; RocksDB's C interface behind safe types
//!
//!   state.rs: snapshots, and which commits each of them has
//!
//! Stamps are times. RocksDB keeps only those of the change log: after a restart stamps are greater than these
//! and follow the wall clock. Whoever opens the engine advances it past other stamps of before
//! (`nagi_store::stamps` does).
//!
//! Does not know about: documents, collections.

mod closed;
mod commit;
mod damage;
mod db;
mod engine;
mod governor;
mod layout;
mod load;
mod options;
mod quarantine;
mod reclaim;
mod repair;
mod rewrite;
mod room;
mod spool;
mod state;
mod stats;
mod tier;
mod wal;

#[doc(hidden)]
pub use db::make_unreadable;
pub use engine::{Rocks, open};
pub use options::Options;
pub use repair::{Lost, Repair, repair};
