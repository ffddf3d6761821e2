//! Reading the slots of a sequence of words.

use nagi_error::{Code, Result, bail};

use super::{REPEAT, REPEAT_UNIT, Row, Slot};

/// Iterates over the slots of words. The words are read one by one, so a repetition of thousands of values costs no
/// memory.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    /// Words that have not been read yet, eight bytes each.
    rest: &'a [u8],
    row: Option<&'static Row>,
    /// The slots of the current word, the next one in the lowest bits.
    bits: u64,
    /// The number of slots left in the current word, or of repetitions.
    left: usize,
    /// The last slot of the last word that was no repetition: what the next repetition repeats.
    last: Slot,
}

impl<'a> Words<'a> {
    /// No words. A repetition after it repeats zero.
    pub(crate) const fn none() -> Words<'a> {
        Words { rest: &[], row: None, bits: 0, left: 0, last: Slot::Value(0) }
    }

    /// Continues with more words. The current ones must have been read.
    pub(crate) fn feed(&mut self, words: &'a [u8]) {
        debug_assert!(self.is_done());
        self.rest = words;
    }

    /// True if every slot was read. Each word has at least one.
    pub(crate) const fn is_done(&self) -> bool {
        self.left == 0 && self.rest.is_empty()
    }

    /// The next slot; none after the last one.
    ///
    /// # Errors
    /// For a word whose selector has no meaning.
    pub(crate) fn next(&mut self) -> Result<Option<Slot>> {
        if self.left == 0 {
            let Some((word, rest)) = self.rest.split_first_chunk() else { return Ok(None) };
            self.rest = rest;
            self.open(u64::from_le_bytes(*word))?;
        }
        self.left -= 1;
        let Some(row) = self.row else { return Ok(Some(self.last)) };
        self.last = row.decode(self.bits & row.missing());
        self.bits >>= row.slot_bits();
        Ok(Some(self.last))
    }

    /// Calls `f` with the next slots, at most `max`: the lowest 64 bits of their values. Returns their number, which is
    /// less only at the end.
    ///
    /// # Errors
    /// For a word whose selector has no meaning, and those of `f`. It must not be used after an error.
    #[inline]
    pub(crate) fn each(
        &mut self,
        max: usize,
        mut f: impl FnMut(Option<u64>) -> Result<()>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < max {
            if self.left == 0 {
                let Some((word, rest)) = self.rest.split_first_chunk() else { break };
                self.rest = rest;
                self.open(u64::from_le_bytes(*word))?;
            }
            let count = self.left.min(max - done);
            self.left -= count;
            done += count;
            let Some(row) = self.row else {
                let same = self.last.low();
                (0..count).try_for_each(|_| f(same))?;
                continue;
            };
            let (missing, slot_bits, mut bits) = (row.missing(), row.slot_bits(), self.bits);
            let mut slot = 0;
            for _ in 0..count {
                slot = bits & missing;
                bits >>= slot_bits;
                f(row.low(slot))?;
            }
            self.bits = bits;
            self.last = row.decode(slot);
        }
        Ok(done)
    }

    fn open(&mut self, word: u64) -> Result<()> {
        if word & 15 == REPEAT {
            self.row = None;
            self.left = ((word >> 4 & 15) as usize + 1) * REPEAT_UNIT;
            return Ok(());
        }
        let Some(row) = Row::of(word) else {
            bail!(
                Code::INVALID_BSON,
                "Invalid Simple-8b selector in a BSONColumn: {:#04x}",
                word & 0xFF
            )
        };
        self.row = Some(row);
        self.bits = word >> row.shift();
        self.left = row.slots() as usize;
        Ok(())
    }
}
