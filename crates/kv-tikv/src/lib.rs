//! The distributed engine: the contract of `nagi-kv` over TiKV (`tikv://pd1:2379,pd2:2379/prefix`).
//!
//! TiKV replicates ordered keys and commits transactions over any of them; every process that has the same address sees
//! the same data. The engine keeps no data and no locks of its own: a conflict is found by the stores, at the commit.
//!
//! ```text
//!   engine --> txn --> changes --+--> client --> runtime (tokio, two threads) ==> placement drivers, stores
//!          --> view --> cursor --+      |
//!                                       +-- regions: bounds of pages      calls: counters by name
//! ```
//!
//! - `address`, `options`: what it is opened with; `format`: the version of the layout, checked at the start
//! - `layout`: keys, heads and pieces of values; `stamps`: timestamps of the oracle as stamps
//! - `connect`, `client`: the only users of the client's API: deadlines, repetitions; `error`: what its errors mean;
//!   `outcome`: what became of a commit without an answer; `contact`: what the log says when the cluster does not
//!   answer
//! - `view`, `at`, `cursor`: snapshots; `txn`, `changes`: transactions; `ages`: how old their timestamps are
//! - `split`: regions that end where the store wants it
//! - `garbage`, `safe_point`: up to which stores remove old versions; `driver`: requests to placement drivers
//!
//! What the contract asks and TiKV does not give is missing in `Capabilities`; what the store does instead is in
//! docs/scale-out.md. The reasons are in docs/decisions/095 and 096.
//!
//! The engine does not know documents or collections.

mod address;
mod ages;
mod at;
mod calls;
mod changes;
mod client;
mod connect;
mod contact;
mod core;
mod cursor;
mod cut;
mod driver;
mod engine;
mod error;
mod fetched;
mod format;
mod garbage;
mod layout;
mod limits;
mod one_phase;
mod options;
mod outcome;
mod page;
mod regions;
mod runtime;
mod safe_point;
mod split;
mod stamps;
mod tls;
mod txn;
mod view;

pub use address::Address;
pub use engine::{Tikv, open};
pub use options::{Collects, GarbageOptions, Options};
pub use tls::Tls;
