//! Sorted runs on disk, for sorts and groups that exceed their memory limit.
//!
//!   block:   ( length of key (4, little-endian) | length of value (4) | key | value ) ...
//!
//! A run is a sequence of blocks of about 64 KB. Each block is compressed (LZ4) if that helps; blocks are written
//! in large sequential pieces to a scratch file of the engine. The positions and hashes of the blocks stay in
//! memory. A run keeps the order in which it was written; merging runs is up to the caller. Nothing here is logged
//! or durable; the disk space is freed when the spill is dropped, and after a crash.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use nagi_error::{Error, Result};
use nagi_kv::{Engine, Scratch};

use crate::{engine_error::engine, memory};

/// A block is closed when it reaches this size.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes per write to the scratch file.
const PIECE_BYTES: usize = 1 << 20;
/// The two lengths before an entry.
const HEAD_BYTES: usize = 8;

/// Fills the next entry's key and value; returns false at the end of the run.
pub type NextEntry<'f> = dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool> + 'f;

/// Bytes by which a run may be ahead of the published figures.
const COUNTED_AT: u64 = 1 << 20;

/// Totals over all spills of a store.
#[derive(Default)]
pub(crate) struct Totals {
    open: AtomicU64,
    open_bytes: AtomicU64,
    runs: AtomicU64,
    written_bytes: AtomicU64,
    stored_bytes: AtomicU64,
}

/// Spill figures: currently open ones, and totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillFigures {
    /// Open sorts, groups and similar operations that have data on disk or are about to write some.
    pub open: u64,
    /// Bytes written by the open ones: keys and values before compression.
    pub open_bytes: u64,
    /// Runs written since the start.
    pub runs: u64,
    /// Bytes of those runs.
    pub written_bytes: u64,
    /// Bytes of the files that contain runs.
    pub disk_bytes: u64,
}

impl Totals {
    pub(crate) fn figures(&self) -> SpillFigures {
        let figure = |one: &AtomicU64| one.load(Ordering::Relaxed);
        SpillFigures {
            open: figure(&self.open),
            open_bytes: figure(&self.open_bytes),
            runs: figure(&self.runs),
            written_bytes: figure(&self.written_bytes),
            disk_bytes: figure(&self.stored_bytes),
        }
    }

    fn add(&self, bytes: u64) {
        self.open_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A scratch file and the number of bytes written to it.
struct Place {
    scratch: Arc<dyn Scratch>,
    totals: Arc<Totals>,
    stored_bytes: AtomicU64,
}

impl Place {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.scratch.write(at, bytes).map_err(engine)?;
        self.stored_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.totals.stored_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        self.totals.stored_bytes.fetch_sub(stored, Ordering::Relaxed);
    }
}

/// The runs of one sort or group. Dropping it and the cursors over it frees the disk space.
pub struct Spill {
    engine: Arc<dyn Engine>,
    totals: Arc<Totals>,
    place: Option<Arc<Place>>,
    /// The position of the next block.
    end: u64,
    runs: Vec<Arc<[Block]>>,
    entries: u64,
    bytes: u64,
}

/// The position of a block.
#[derive(Clone, Copy)]
struct Block {
    at: u64,
    /// Equal to `raw_bytes` if the block is not compressed.
    stored_bytes: u32,
    raw_bytes: u32,
    /// Hash of the stored bytes: detects a disk that returns other data.
    hash: u64,
}

/// The hash is valid in this process only, which is the only reader of its spills.
fn hash_of(stored: &[u8]) -> u64 {
    static HASHER: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    HASHER.hash_one(stored)
}

fn damaged() -> Error {
    Error::bug("an entry of a spilled run is damaged")
}

impl Spill {
    pub(crate) fn new(engine: Arc<dyn Engine>, totals: Arc<Totals>) -> Spill {
        totals.open.fetch_add(1, Ordering::Relaxed);
        Spill { engine, totals, place: None, end: 0, runs: Vec::new(), entries: 0, bytes: 0 }
    }

    /// Writes the next run in one pass. Keeps one block and one piece in memory.
    ///
    /// # Errors
    /// Errors of `next` and of the engine (14031 if the disk is full).
    pub fn write_run(&mut self, next: &mut NextEntry<'_>) -> Result<()> {
        let place = Arc::clone(self.place()?);
        let mut run = Writer::new(&place, self.end);
        let written = run.write(next);
        // Also after a failed run: the next run is placed after the bytes that it wrote.
        self.end = run.at;
        self.bytes += run.bytes;
        self.entries += run.entries;
        self.totals.add(run.bytes - run.counted);
        self.totals.runs.fetch_add(1, Ordering::Relaxed);
        written?;
        self.runs.push(run.blocks.into());
        Ok(())
    }

    fn place(&mut self) -> Result<&Arc<Place>> {
        if self.place.is_none() {
            let (scratch, totals) = (self.engine.scratch().map_err(engine)?, self.totals.clone());
            self.place = Some(Arc::new(Place { scratch, totals, stored_bytes: AtomicU64::new(0) }));
        }
        self.place.as_ref().ok_or_else(damaged)
    }

    /// Number of runs written.
    pub fn run_count(&self) -> u32 {
        self.runs.len() as u32
    }

    /// Entries written.
    pub fn entry_count(&self) -> u64 {
        self.entries
    }

    /// Bytes written: keys and values, and four bytes per length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads a run from its beginning, one block at a time.
    pub fn read_run(&self, run: u32) -> Result<SpillCursor> {
        let (Some(run), Some(place)) = (self.runs.get(run as usize), &self.place) else {
            return Err(Error::bug("a spilled run that was not written is read"));
        };
        Ok(SpillCursor {
            place: Arc::clone(place),
            run: Arc::clone(run),
            next_block: 0,
            block: Vec::new(),
            stored: Vec::new(),
            next_at: 0,
            key: 0..0,
            value: 0..0,
        })
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.totals.open_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.totals.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A run that is being written.
struct Writer<'p> {
    place: &'p Place,
    blocks: Vec<Block>,
    /// The block that is being filled.
    block: Vec<u8>,
    /// Finished blocks, and the position at which they will be written.
    piece: Vec<u8>,
    at: u64,
    entries: u64,
    bytes: u64,
    /// The part of `bytes` that is included in the figures.
    counted: u64,
}

impl Writer<'_> {
    fn new(place: &Place, at: u64) -> Writer<'_> {
        let (blocks, block, piece) = (Vec::new(), Vec::new(), Vec::new());
        Writer { place, blocks, block, piece, at, entries: 0, bytes: 0, counted: 0 }
    }

    /// Writes all entries.
    fn write(&mut self, next: &mut NextEntry<'_>) -> Result<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while next(&mut key, &mut value)? {
            self.add(&key, &value)?;
            memory::renew(&mut key);
            memory::renew(&mut value);
        }
        self.close_block()?;
        if self.piece.is_empty() { Ok(()) } else { self.write_piece() }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // The entry may need a block of its own and a packed copy, each in a buffer that grows by doubling.
        memory::check(4 * (key.len() + value.len()), "entries that are written to disk")?;
        for part in [key, value] {
            let len = u32::try_from(part.len())
                .map_err(|_| Error::bug("an entry of a spilled run has more than 4 GiB"))?;
            self.block.extend_from_slice(&len.to_le_bytes());
        }
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        self.bytes += (key.len() + value.len() + 4) as u64;
        self.entries += 1;
        if self.bytes - self.counted >= COUNTED_AT {
            self.place.totals.add(self.bytes - self.counted);
            self.counted = self.bytes;
        }
        if self.block.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let raw = self.block.len();
        let raw_bytes = u32::try_from(raw)
            .map_err(|_| Error::bug("a block of a spilled run has more than 4 GiB"))?;
        let start = self.piece.len();
        self.piece.resize(start + lz4_flex::block::get_maximum_output_size(raw), 0);
        let packed = lz4_flex::block::compress_into(&self.block, &mut self.piece[start..]);
        match packed {
            // If less than an eighth is saved, decompression is not worth its cost.
            Ok(len) if len <= raw - raw / 8 => self.piece.truncate(start + len),
            _ => {
                self.piece.truncate(start);
                self.piece.extend_from_slice(&self.block);
            }
        }
        let stored = &self.piece[start..];
        let (stored_bytes, hash) = (stored.len() as u32, hash_of(stored));
        self.blocks.push(Block { at: self.at + start as u64, stored_bytes, raw_bytes, hash });
        memory::renew(&mut self.block);
        if self.piece.len() >= PIECE_BYTES { self.write_piece() } else { Ok(()) }
    }

    fn write_piece(&mut self) -> Result<()> {
        self.place.write(self.at, &self.piece)?;
        self.at += self.piece.len() as u64;
        memory::renew(&mut self.piece);
        Ok(())
    }
}

/// A cursor over a run, in the order in which it was written. Holds one block.
pub struct SpillCursor {
    place: Arc<Place>,
    run: Arc<[Block]>,
    next_block: usize,
    block: Vec<u8>,
    stored: Vec<u8>,
    /// Position of the next entry in the block.
    next_at: usize,
    key: Range<usize>,
    value: Range<usize>,
}

impl SpillCursor {
    /// Moves to the next entry; returns false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        if self.next_at >= self.block.len() && !self.read_block()? {
            (self.key, self.value) = (0..0, 0..0);
            return Ok(false);
        }
        let head = self.block.get(self.next_at..).and_then(|rest| rest.first_chunk::<HEAD_BYTES>());
        let [a, b, c, d, e, f, g, h] = *head.ok_or_else(damaged)?;
        let key_start = self.next_at + HEAD_BYTES;
        let value_start = key_start + u32::from_le_bytes([a, b, c, d]) as usize;
        let end = value_start + u32::from_le_bytes([e, f, g, h]) as usize;
        if end > self.block.len() {
            return Err(damaged());
        }
        (self.key, self.value, self.next_at) = (key_start..value_start, value_start..end, end);
        Ok(true)
    }

    fn read_block(&mut self) -> Result<bool> {
        let Some(block) = self.run.get(self.next_block).copied() else { return Ok(false) };
        self.next_block += 1;
        self.next_at = 0;
        let (stored, raw) = (block.stored_bytes as usize, block.raw_bytes as usize);
        // Checked for each cursor, because a merge holds many of these blocks.
        if raw > 2 * BLOCK_BYTES {
            memory::check_each(stored + raw, "entries that are read from disk")?;
        }
        let into = if stored == raw { &mut self.block } else { &mut self.stored };
        into.resize(stored, 0);
        self.place.scratch.read(block.at, into).map_err(engine)?;
        if hash_of(into) != block.hash {
            return Err(damaged());
        }
        if stored != raw {
            self.block.resize(raw, 0);
            let len = lz4_flex::block::decompress_into(&self.stored, &mut self.block);
            if len.ok() != Some(raw) {
                return Err(damaged());
            }
            if stored > 2 * BLOCK_BYTES {
                self.stored = Vec::new();
            }
        }
        Ok(true)
    }

    /// Upper limit of its memory in bytes: the largest block, both packed and unpacked.
    pub fn bytes_max(&self) -> usize {
        let sizes =
            self.run.iter().map(|block| block.stored_bytes as usize + block.raw_bytes as usize);
        sizes.max().unwrap_or(0)
    }

    /// Key and value of the current entry.
    pub fn entry(&self) -> Result<(&[u8], &[u8])> {
        Ok((&self.block[self.key.clone()], &self.block[self.value.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use nagi_error::Code;
    use nagi_kv::Memory;

    use super::*;

    /// Keys and values of many sizes: some compress, some do not, some are larger than a block.
    fn entry(n: u64) -> (Vec<u8>, Vec<u8>) {
        let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let len = match mixed >> 59 {
            0 => 200_000,
            few => few as usize * 40,
        };
        let value = match n % 2 {
            0 => vec![n as u8; len],
            _ => (0..len as u64).map(|i| (mixed.wrapping_mul(i * 2 + 1) >> 56) as u8).collect(),
        };
        (mixed.to_be_bytes()[..(n % 9) as usize].to_vec(), value)
    }

    #[test]
    fn runs_come_back_as_they_were_written() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let totals = Arc::new(Totals::default());
        let mut spill = Spill::new(engine, Arc::clone(&totals));
        let counts = [0u64, 1, 3000, 17];
        for count in counts {
            let mut left = 0..count;
            spill
                .write_run(&mut |key, value| {
                    let Some(n) = left.next() else { return Ok(false) };
                    let (k, v) = entry(n);
                    key.extend_from_slice(&k);
                    value.extend_from_slice(&v);
                    Ok(true)
                })
                .unwrap();
            // A failed run leaves the other runs unchanged.
            let failed = spill.write_run(&mut |_, _| Err(Error::new(Code::INTERRUPTED, "stop")));
            assert!(failed.is_err());
        }
        assert_eq!(spill.run_count(), 4);
        let mut bytes = 0;
        for (run, count) in (0..).zip(counts) {
            let mut cursor = spill.read_run(run).unwrap();
            for n in 0..count {
                assert!(cursor.advance().unwrap());
                let (k, v) = entry(n);
                bytes += (k.len() + v.len() + 4) as u64;
                assert!(cursor.entry().unwrap() == (&k[..], &v[..]), "{run} {n}");
            }
            assert!(!cursor.advance().unwrap() && !cursor.advance().unwrap());
        }
        assert_eq!(spill.bytes(), bytes);
        assert!(spill.read_run(4).is_err());
        let stored = || totals.stored_bytes.load(Ordering::Relaxed);
        assert!(stored() > 0 && stored() < bytes, "some of it shrinks");
        drop(spill);
        assert_eq!((stored(), totals.open_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn what_goes_to_disk_and_comes_back_is_asked_for() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let mut spill = Spill::new(engine, Arc::default());
        let large = vec![7; 8 << 20];
        let write = |spill: &mut Spill, count: usize| {
            let mut left = 0..count;
            spill.write_run(&mut |_, value| {
                value.extend_from_slice(&large);
                Ok(left.next().is_some())
            })
        };
        write(&mut spill, 1).unwrap();
        let budget = nagi_budget::Budget::new(6 << 20);
        let request = nagi_budget::Metering::begin(&budget);
        assert_eq!(write(&mut spill, 1).unwrap_err().code(), Code::EXCEEDED_MEMORY_LIMIT);
        let read = |spill: &mut Spill| spill.read_run(0)?.advance();
        assert_eq!(read(&mut spill).unwrap_err().code(), Code::EXCEEDED_MEMORY_LIMIT);
        drop(request);
        assert_eq!(budget.demand(), 0);
        assert!(read(&mut spill).unwrap(), "the run is still there");
    }
}
