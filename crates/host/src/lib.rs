//! What a process needs to hold a database: the lock of its data directory, a storage engine, a watcher of its memory.
//!
//! ```text
//!   app (the server)    nagi (the library)
//!          \              /
//!           host: folder -> engine -> [store] -> memory watcher
//! ```
//!
//! Both programs lock a data directory in the same way and check the same things first, so that neither opens what the
//! other one uses, and each opens what the other one left.
//!
//! Invariants
//! - A directory that is refused stays as it was: nothing is written before the checks and the lock.
//! - This is the only crate that names storage engines.
//!
//! The crate does not know options of the command line, sockets or commands.

mod distributed;
mod engine;
mod folder;
mod lock;
mod memory;
mod work;

pub use distributed::{Cluster, ClusterGarbage, ClusterTls};
pub use engine::{
    DataFiles, EngineKind, EngineSettings, examine, found_in, has_encrypted_files,
    in_memory_bytes_default, open, repair,
};
pub use folder::{Problem, RESTORING, check, lock_problem};
pub use lock::{Lock, holder, is_held};
pub use memory::{Allocator, Figures, Watched, Watcher, in_memory_budget};
pub use nagi_kv_disk::fatal::OnFatal;
pub use nagi_kv_lmdb::{Growth, Options as MappedOptions};
pub use nagi_kv_rocks::{Examined, Lost, Options as RocksOptions, Repair};
