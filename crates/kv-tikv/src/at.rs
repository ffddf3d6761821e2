//! Reads at one timestamp, below snapshots and cursors.

use std::{collections::HashMap, sync::Arc, time::Instant};

use nagi_kv::{Error, Result, Space};

use crate::{
    core::Core,
    layout::{PIECE_BYTES, pieces_of},
    stamps::stamp_of,
};

/// Pieces of a large value that are read at once: 4 MiB.
const BATCH_PIECES: u32 = 8;

/// A timestamp, and the store. A clone is the same.
#[derive(Clone)]
pub(crate) struct At {
    pub(crate) core: Arc<Core>,
    pub(crate) version: u64,
    since: Instant,
}

impl At {
    pub(crate) fn new(core: &Arc<Core>, version: u64) -> At {
        core.saw(stamp_of(version));
        At { core: Arc::clone(core), version, since: Instant::now() }
    }

    /// The timestamp of a read.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the cluster may have removed versions that it could need.
    pub(crate) fn to_read(&self) -> Result<u64> {
        match self.since.elapsed() < self.core.options.snapshot_age_max {
            true => Ok(self.version),
            false => Err(Error::SnapshotTooOld),
        }
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
            let found = self.core.client.get_many(self.to_read()?, keys.clone())?;
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
