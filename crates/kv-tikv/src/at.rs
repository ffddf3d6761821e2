//! Reads at one timestamp, below snapshots and cursors.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{Error, Result, Space};

use crate::{
    client::{Client, Page, Pair, Part},
    core::Core,
    layout::{PIECE_BYTES, pieces_of},
    runtime::Running,
    stamps::stamp_of,
};

/// Pieces of a large value that are read at once: 4 MiB.
const BATCH_PIECES: u32 = 8;

/// A timestamp, and the store. A clone is the same.
#[derive(Clone)]
pub(crate) struct At {
    pub(crate) core: Arc<Core>,
    pub(crate) version: u64,
    /// When versions that it needs may be removed.
    until: Instant,
}

impl At {
    /// At a timestamp that was asked for at `asked`.
    pub(crate) fn new(core: &Arc<Core>, version: u64, asked: Instant) -> At {
        core.saw(stamp_of(version));
        core.ages.note(version, asked);
        At { core: Arc::clone(core), version, until: asked + core.options.snapshot_age_max }
    }

    /// At a timestamp of the past; `age`: an upper bound of the time since it was taken.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the cluster may have removed versions of that time.
    pub(crate) fn of_past(core: &Arc<Core>, version: u64, age: Duration) -> Result<At> {
        let left = core.options.snapshot_age_max.checked_sub(age).ok_or(Error::SnapshotTooOld)?;
        Ok(At { core: Arc::clone(core), version, until: Instant::now() + left })
    }

    /// The cluster has kept all versions of this time until now.
    ///
    /// # Errors
    /// `SnapshotTooOld` if that is not sure.
    pub(crate) fn check(&self) -> Result<()> {
        match Instant::now() < self.until && self.version >= self.core.garbage.safe_point() {
            true => Ok(()),
            false => Err(Error::SnapshotTooOld),
        }
    }

    /// A read at this time. What it needs must not be removed before it is answered, also if this process does not run
    /// for a while; so the age is tested before and after it.
    fn read<T>(&self, read: impl FnOnce(&Client, u64) -> Result<T>) -> Result<T> {
        self.check()?;
        let found = read(&self.core.client, self.version)?;
        self.check().map(|()| found)
    }

    /// See [`Client::get`].
    pub(crate) fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        self.read(|client, version| client.get(version, key))
    }

    /// See [`Client::get_many`].
    pub(crate) fn get_many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Pair>> {
        self.read(|client, version| client.get_many(version, keys))
    }

    /// See [`Client::scan`].
    pub(crate) fn scan(&self, page: Page) -> Result<Vec<Pair>> {
        self.read(|client, version| client.scan(version, page))
    }

    /// See [`Client::start_scan`]; what it reads is to be taken by [`At::started`].
    pub(crate) fn start_scan(&self, page: Page) -> Result<Running<Part>> {
        self.check()?;
        self.core.client.start_scan(self.version, page)
    }

    /// Waits for what was begun.
    pub(crate) fn started(&self, running: Running<Part>) -> Result<Part> {
        self.read(|_, _| running.wait())
    }

    /// Reads a value that is in pieces into `buf`, whose content is lost.
    pub(crate) fn read_pieces(
        &self,
        (space, key): (Space, &[u8]),
        bytes: usize,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        buf.clear();
        buf.reserve_exact(bytes);
        let count = pieces_of(bytes);
        for first in (0..count).step_by(BATCH_PIECES as usize) {
            let numbers = first..count.min(first + BATCH_PIECES);
            let keys: Vec<Vec<u8>> =
                numbers.map(|n| self.core.layout.piece(space, key, n)).collect();
            let found = self.get_many(keys.clone())?;
            let mut found: HashMap<Vec<u8>, Vec<u8>> = found.into_iter().collect();
            for key in &keys {
                let piece = found.remove(key).ok_or_else(incomplete)?;
                if piece.len() > PIECE_BYTES {
                    return Err(incomplete());
                }
                buf.extend_from_slice(&piece);
            }
        }
        if buf.len() == bytes { Ok(()) } else { Err(incomplete()) }
    }
}

fn incomplete() -> Error {
    Error::Corrupt("a large value in the store is not complete".into())
}
