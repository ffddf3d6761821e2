//! Sorted runs on disk: index keys are packed into blocks, and each block is one entry of a spilled run.
//!
//!   block   { shared | rest | bits | rest of the key | bits }...      the three lengths as varints
//!
//! `shared` is the number of bytes that the key shares with the previous key of the block; the first key shares
//! none. Neighbours in a sorted run have much in common, so a run takes a fraction of its memory size.

use nagi_error::{Error, Result};

use crate::{Spill, SpillCursor};

use super::merge::Merge;

/// A block is closed after the entry that reaches this size.
pub(super) const BLOCK_BYTES: usize = 32 << 10;

/// Writes the output of the merge as the next run; `go_on` is called before each block.
pub(super) fn write(
    spill: &mut Spill,
    merge: &mut Merge,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut last = Vec::new();
    let mut found = merge.advance()?;
    spill.write_run(&mut |_, block| {
        go_on()?;
        last.clear();
        while found && block.len() < BLOCK_BYTES {
            let (key, bits) = (merge.key(), merge.bits());
            let shared = key.iter().zip(&last).take_while(|(a, b)| a == b).count();
            append_varint(block, shared);
            append_varint(block, key.len() - shared);
            append_varint(block, bits.len());
            block.extend_from_slice(&key[shared..]);
            block.extend_from_slice(bits);
            last.truncate(shared);
            last.extend_from_slice(&key[shared..]);
            found = merge.advance()?;
        }
        Ok(!block.is_empty())
    })
}

fn append_varint(to: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take_varint(from: &[u8], at: &mut usize) -> Option<usize> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = *from.get(*at)?;
        *at += 1;
        number |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Reads a run in order.
pub(super) struct RunReader {
    cursor: SpillCursor,
    key: Vec<u8>,
    /// Begin and end of the current entry's type bits in the block.
    bits: (usize, usize),
    begun: bool,
}

impl RunReader {
    pub(super) fn open(spill: &Spill, run: u32) -> Result<RunReader> {
        let cursor = spill.read_run(run)?;
        Ok(RunReader { cursor, key: Vec::new(), bits: (0, 0), begun: false })
    }

    /// Moves to the next entry. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let ended = match self.begun {
            true => self.bits.1 >= self.cursor.entry()?.1.len(),
            false => true,
        };
        if ended {
            self.begun = self.cursor.advance()?;
            if !self.begun {
                return Ok(false);
            }
            self.key.clear();
            self.bits = (0, 0);
        }
        let (_, block) = self.cursor.entry()?;
        let read = read(block, self.bits.1, &mut self.key);
        self.bits = read.ok_or_else(|| Error::bug("a spilled run is damaged"))?;
        Ok(true)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn bits(&self) -> &[u8] {
        let block = self.cursor.entry().map_or(&[][..], |(_, block)| block);
        block.get(self.bits.0..self.bits.1).unwrap_or_default()
    }
}

/// Reads the key of the entry at `at` into `key`. Returns the range of its type bits.
fn read(block: &[u8], mut at: usize, key: &mut Vec<u8>) -> Option<(usize, usize)> {
    let shared = take_varint(block, &mut at)?;
    let rest = take_varint(block, &mut at)?;
    let bits = take_varint(block, &mut at)?;
    let middle = at.checked_add(rest)?;
    let end = middle.checked_add(bits)?;
    if shared > key.len() || end > block.len() {
        return None;
    }
    key.truncate(shared);
    key.extend_from_slice(&block[at..middle]);
    Some((middle, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_bytes_and_come_back() {
        for number in [0, 1, 127, 128, 300, 1 << 20, u32::MAX as usize] {
            let mut bytes = Vec::new();
            append_varint(&mut bytes, number);
            let mut at = 0;
            assert_eq!(take_varint(&bytes, &mut at), Some(number));
            assert_eq!(at, bytes.len());
            assert_eq!(take_varint(&bytes[..bytes.len() - 1], &mut 0), None);
        }
        assert_eq!(take_varint(&[0x80; 9], &mut 0), None, "without an end");
    }

    #[test]
    fn a_block_that_was_not_written_here_is_refused() {
        let mut key = b"ab".to_vec();
        // It shares more than exists; it reaches beyond the block; it ends within a number.
        for block in [&[3, 0, 0][..], &[0, 9, 0, 1], &[0, 1, 9, 1], &[0, 0x80]] {
            assert_eq!(read(block, 0, &mut key), None, "{block:?}");
        }
        assert_eq!(read(&[1, 1, 2, b'c', 7, 8], 0, &mut key), Some((4, 6)));
        assert_eq!(key, b"ac");
    }
}
