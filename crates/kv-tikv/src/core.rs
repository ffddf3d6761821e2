//! What snapshots, cursors and transactions of an engine share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use nagi_kv::{Clock, CommitStamp, Result, Space};

use crate::{ages::Ages, client::Client, layout::Layout, options::Options, safe_point::Garbage};

pub(crate) struct Core {
    pub(crate) client: Client,
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    /// Follows the oracle: it assigns no stamps of commits.
    pub(crate) clock: Clock,
    pub(crate) ages: Ages,
    pub(crate) garbage: Garbage,
    newest: AtomicU64,
    /// This process has written to the space of spills.
    spills: AtomicBool,
}

impl Core {
    /// Connects to the cluster.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub(crate) fn connect(options: &Options) -> Result<Arc<Core>> {
        let client = Client::connect(options)?;
        // The timestamp is different for each process.
        let session = client.timestamp()?;
        Ok(Arc::new(Core {
            client,
            layout: Layout::new(&options.address.prefix, session),
            options: options.clone(),
            clock: Clock::new(0),
            ages: Ages::new(),
            garbage: Garbage::new(options),
            newest: AtomicU64::new(0),
            spills: AtomicBool::new(false),
        }))
    }

    /// The newest stamp that this process has read or written at.
    pub(crate) fn newest(&self) -> CommitStamp {
        CommitStamp(self.newest.load(SeqCst))
    }

    /// Takes note of a write: what is in the space of spills is removed at the end.
    pub(crate) fn writes(&self, space: Space) {
        if space == Space::Spill {
            self.spills.store(true, SeqCst);
        }
    }

    pub(crate) fn has_spills(&self) -> bool {
        self.spills.load(SeqCst)
    }

    /// Takes note of a stamp that was read or written at.
    pub(crate) fn saw(&self, stamp: CommitStamp) {
        self.newest.fetch_max(stamp.0, SeqCst);
        self.clock.observe(stamp.0);
    }
}
