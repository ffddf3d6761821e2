//! Bulk loads: entries are sorted in memory a piece at a time and written to the file, bypassing log and layers.
//!
//! A small load goes through the log like a commit, because a synced write transaction would cost more. Pieces may
//! overlap; the last entry of a key wins.

use std::sync::Arc;

use nagi_kv::{
    Next, Result, Space,
    overlay::{Base as _, Overlay, SharedOverlay},
};
use nagi_kv_disk::capacity::Kind;

use crate::{core::Core, view::View};

const PIECE_BYTES: usize = 16 << 20;
const SMALL_BYTES: usize = 256 << 10;

/// Entries of one write transaction.
#[derive(Default)]
struct Piece {
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    start: usize,
    key_bytes: usize,
    value_bytes: usize,
}

impl Piece {
    /// Reads entries until the source is exhausted or the piece is full. Returns true if there may be more.
    fn fill(&mut self, next: &mut Next<'_>) -> Result<bool> {
        self.arena.clear();
        self.entries.clear();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while self.arena.len() < PIECE_BYTES {
            if !next(&mut key, &mut value)? {
                return Ok(false);
            }
            let start = self.arena.len();
            self.entries.push(Entry { start, key_bytes: key.len(), value_bytes: value.len() });
            self.arena.extend_from_slice(&key);
            self.arena.extend_from_slice(&value);
        }
        Ok(true)
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.arena[entry.start..entry.start + entry.key_bytes]
    }

    fn value(&self, entry: &Entry) -> &[u8] {
        let start = entry.start + entry.key_bytes;
        &self.arena[start..start + entry.value_bytes]
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        // A stable sort keeps entries of one key in order of arrival.
        entries.sort_by(|a, b| self.key(a).cmp(self.key(b)));
        self.entries = entries;
    }

    /// The least key, and the first key after the greatest.
    fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let first = self.entries.first().map_or(&[][..], |entry| self.key(entry)).to_vec();
        let mut end = self.entries.last().map_or(&[][..], |entry| self.key(entry)).to_vec();
        end.push(0);
        (first, end)
    }
}

/// Returns true if any layer has a change or a dropped range within the range.
fn layers_have(view: &View, space: Space, start: &[u8], end: &[u8]) -> bool {
    view.layers.iter().any(|layer| {
        layer.drops_overlap(space, start, end) || layer.table.has_any(space, start, end)
    })
}

/// Implements `Engine::load`.
pub(crate) fn load(core: &Arc<Core>, space: Space, next: &mut Next<'_>) -> Result<()> {
    let mut piece = Piece::default();
    let mut first = true;
    loop {
        let more = piece.fill(next)?;
        if piece.entries.is_empty() {
            return Ok(());
        }
        if first && !more && piece.arena.len() < SMALL_BYTES && space != Space::Spill {
            return load_small(core, space, &piece);
        }
        first = false;
        core.capacity.check(piece.arena.len() as u64, Kind::Grows, || core.unwritten_bytes())?;
        piece.sort();
        let (start, end) = piece.bounds();
        if layers_have(&core.views.load(), space, &start, &end) {
            core.checkpoint()?;
        }
        let _files = core.files.lock();
        let mut entries = piece.entries.iter().map(|e| (piece.key(e), piece.value(e)));
        core.put_all(space, &mut entries)?;
        if !more {
            return Ok(());
        }
    }
}

fn load_small(core: &Arc<Core>, space: Space, piece: &Piece) -> Result<()> {
    let mut overlay = Overlay::new();
    for entry in &piece.entries {
        overlay.put(space, piece.key(entry), piece.value(entry));
    }
    core.write(&SharedOverlay::new(overlay.into()))?;
    core.sync()
}
