//! What the engine is opened with.

use std::{path::PathBuf, time::Duration};

use crate::{address::Address, tls::Tls};

/// See the module's header.
#[derive(Clone, Debug)]
pub struct Options {
    pub address: Address,
    /// For encrypted connections.
    pub tls: Option<Tls>,
    /// Where runs of sorts go that exceed their memory; a folder of this process.
    pub scratch: PathBuf,
    /// Time for the first connection to a placement driver.
    pub connect_timeout: Duration,
    /// Time for one request to one store.
    pub request_timeout: Duration,
    /// Time for a read or a commit, with all repetitions. Failover of a store takes up to some 15 seconds.
    pub call_timeout: Duration,
    /// How old a snapshot may be. Less than the time for which the cluster's garbage collection keeps versions.
    pub snapshot_age_max: Duration,
    pub garbage: GarbageOptions,
}

/// How old versions of values are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GarbageOptions {
    pub mode: Collects,
    /// For how long versions are kept at least: longer than `Options::snapshot_age_max`, by the time that a request may
    /// take and more.
    pub kept_for: Duration,
    /// How often the safe point is advanced.
    pub each: Duration,
}

/// Whether this process advances the safe point of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Collects {
    /// If TiDB has never done so.
    #[default]
    Unless,
    /// If no server of TiDB runs.
    Always,
    Never,
}

impl Options {
    /// Defaults for an address.
    pub fn new(address: Address, scratch: impl Into<PathBuf>) -> Options {
        Options {
            address,
            tls: None,
            scratch: scratch.into(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(20),
            snapshot_age_max: Duration::from_secs(9 * 60),
            garbage: GarbageOptions {
                mode: Collects::default(),
                kept_for: Duration::from_secs(10 * 60),
                each: Duration::from_secs(10 * 60),
            },
        }
    }
}
