//! The state of a [`super::server::Server`], in groups by purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64};
use std::thread::JoinHandle;
use std::time::Instant;

use nagi_bson::{DocBuf, DocWriter, oid};
use nagi_error::Result;
use nagi_percore::PerCore;
use nagi_store::Store;
use parking_lot::{Condvar, Mutex};

use super::cursors::Cursors;
use super::snapshots::Snapshots;
use super::txn_number::TxnSessions;
use crate::backup::Backups;
use crate::clock;
use crate::compactions::Compactions;
use crate::diagnostic_data::Recorder;
use crate::fail_points::FailPoints;
use crate::fsync::{FsyncLock, Rounds};
use crate::limits::{READ_TICKETS, WRITE_TICKETS};
use crate::memory_line::MemoryLine;
use crate::op::Ops;
use crate::parallel_workers::ParallelWorkers;
use crate::profile::Profiles;
use crate::random::random_bytes;
use crate::session::Sessions;
use crate::settings::cluster_params::ClusterParams;
use crate::settings::index_filters::IndexFilters;
use crate::settings::params::Parameters;
use crate::settings::query_settings::AllQuerySettings;
use crate::settings::rw_defaults::RwDefaults;
use crate::settings::write_block::WriteBlock;
use crate::signal::Signal;
use crate::tickets::Tickets;

/// The part of the configuration that is needed while the server runs.
pub(crate) struct Startup {
    pub(crate) storage_engine: String,
    pub(crate) persistent: bool,
    pub(crate) argv: Vec<String>,
    pub(crate) parsed_options: DocBuf,
    pub(crate) port: u16,
    pub(crate) connection_count_max: i64,
    pub(crate) memory_limit_bytes: Option<u64>,
    /// Applies the log of a copy: see [`crate::ServerConfig`].
    pub(crate) restores: bool,
    pub(crate) own_threads: bool,
    pub(crate) nagi_version: &'static str,
    pub(crate) git_version: &'static str,
    pub(crate) host: String,
}

/// The identity of the process: the origin of its ids and random numbers.
pub(crate) struct Identity {
    pub(crate) oids: Arc<oid::Generator>,
    /// The random seed of the next request, by core; the seeds of different cores are far apart.
    pub(crate) seeds: PerCore<AtomicU64>,
    pub(crate) topology: Topology,
    pub(crate) started: Instant,
}

impl Identity {
    /// # Errors
    /// If the operating system has no randomness.
    pub(crate) fn new() -> Result<Identity> {
        let random = random_bytes()?;
        let process = random[..5].try_into().expect("five of sixteen bytes");
        let start = u32::from_le_bytes([random[5], random[6], random[7], 0]);
        let oids = Arc::new(oid::Generator::new(process, start));
        let seed = u64::from_le_bytes(random[8..].try_into().expect("eight of sixteen bytes"));
        let process_id = oids.next(clock::wall_seconds());
        Ok(Identity {
            oids,
            seeds: PerCore::new(|core| AtomicU64::new(seed ^ ((core as u64) << 57))),
            topology: Topology { process_id, counter: Mutex::new(0), changed: Condvar::new() },
            started: clock::now(),
        })
    }
}

/// State of clients: operations, sessions, transactions, cursors and tickets.
pub(crate) struct Clients {
    pub(crate) ops: Ops,
    pub(crate) sessions: Sessions,
    pub(crate) txn_sessions: TxnSessions,
    pub(crate) snapshots: Snapshots,
    pub(crate) cursors: Cursors,
    pub(crate) tickets: Tickets,
    pub(crate) workers: ParallelWorkers,
    pub(crate) next_connection_id: AtomicI64,
}

impl Clients {
    pub(crate) fn new(params: &Parameters) -> Clients {
        Clients {
            ops: Ops::new(),
            sessions: Sessions::new(params.int("maxSessions") as usize),
            txn_sessions: TxnSessions::new(),
            snapshots: Snapshots::default(),
            cursors: Cursors::default(),
            tickets: Tickets::new(READ_TICKETS, WRITE_TICKETS),
            workers: ParallelWorkers::new(),
            next_connection_id: AtomicI64::new(1),
        }
    }
}

/// Settings that administrators change while the server runs.
pub(crate) struct Settings {
    pub(crate) params: Arc<Parameters>,
    pub(crate) query_settings: AllQuerySettings,
    pub(crate) index_filters: IndexFilters,
    pub(crate) cluster_params: ClusterParams,
    pub(crate) rw_defaults: RwDefaults,
    pub(crate) write_block: WriteBlock,
    pub(crate) fail_points: Arc<FailPoints>,
    /// One bit per wire compressor that may be used.
    pub(crate) compressors: AtomicU8,
    pub(crate) profile: Profiles,
}

impl Settings {
    /// Reads the settings that the store persists.
    pub(crate) fn open(params: Arc<Parameters>, store: &Arc<Store>) -> Result<Settings> {
        Ok(Settings {
            params,
            query_settings: AllQuerySettings::open(store)?,
            index_filters: IndexFilters::default(),
            cluster_params: ClusterParams::open(store)?,
            rw_defaults: RwDefaults::open(store)?,
            write_block: WriteBlock::open(store)?,
            fail_points: Arc::default(),
            compressors: AtomicU8::new(u8::MAX),
            profile: Profiles::default(),
        })
    }
}

/// Background work, and how it is stopped.
pub(crate) struct Upkeep {
    pub(crate) compactions: Compactions,
    pub(crate) backups: Backups,
    pub(crate) diagnostic_data: Recorder,
    pub(crate) fsync: Arc<FsyncLock>,
    /// Holding and releasing the files for the lock of `fsync`.
    pub(crate) file_rounds: Arc<Rounds>,
    /// Syncing the log for `fsync`.
    pub(crate) sync_rounds: Arc<Rounds>,
    pub(crate) signal: Arc<Signal>,
    /// When the last TTL pass began.
    pub(crate) ttl_last_ms: AtomicI64,
    /// When the records of old sessions were last swept.
    pub(crate) records_swept_ms: AtomicI64,
    pub(crate) memory_line: Mutex<MemoryLine>,
    /// Locked while a document of a `system.views` collection is updated.
    pub(crate) views_mirrored: Mutex<()>,
    pub(crate) shutdown: Shutdown,
    /// The threads of the background jobs.
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Upkeep {
    pub(crate) fn new() -> Upkeep {
        Upkeep {
            compactions: Compactions::default(),
            backups: Backups::default(),
            diagnostic_data: Recorder::default(),
            fsync: Arc::default(),
            file_rounds: Arc::default(),
            sync_rounds: Arc::default(),
            signal: Arc::new(Signal::default()),
            ttl_last_ms: AtomicI64::new(clock::wall_ms()),
            records_swept_ms: AtomicI64::new(clock::wall_ms()),
            memory_line: Mutex::new(MemoryLine::new(clock::wall_ms())),
            views_mirrored: Mutex::new(()),
            shutdown: Shutdown::default(),
            threads: Mutex::default(),
        }
    }
}

/// `topologyVersion`: a process id and a counter that grows when the server's role changes.
pub(crate) struct Topology {
    pub(crate) process_id: [u8; 12],
    counter: Mutex<i64>,
    changed: Condvar,
}

impl Topology {
    pub(crate) fn counter(&self) -> i64 {
        *self.counter.lock()
    }

    /// Waits until the counter exceeds `seen` or `until` has passed. Returns true if it exceeds it.
    pub(crate) fn wait_beyond(&self, seen: i64, until: Instant) -> bool {
        let mut counter = self.counter.lock();
        while *counter <= seen {
            if self.changed.wait_until(&mut counter, until).timed_out() {
                return *counter > seen;
            }
        }
        true
    }

    /// Writes `topologyVersion` as replies show it.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("topologyVersion", |doc| {
            doc.put("processId", &self.process_id);
            doc.put("counter", self.counter());
        });
    }

    /// Announces that the server's role has changed: waiting hellos reply.
    pub(crate) fn advance(&self) {
        *self.counter.lock() += 1;
        self.changed.notify_all();
    }
}

/// The state of a shutdown.
#[derive(Default)]
pub(crate) struct Shutdown {
    pub(crate) wanted: Mutex<bool>,
    pub(crate) changed: Condvar,
    /// When quiesce mode ends at the latest; `None` outside quiesce mode.
    pub(crate) quiesce_until: Mutex<Option<Instant>>,
}
