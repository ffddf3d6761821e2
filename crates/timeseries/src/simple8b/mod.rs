//! Simple-8b: small integers in words of 64 bits, as a BSONColumn stores its differences.
//!
//! ```text
//!   word   [ values, 56 or 60 bits | extension, 0 or 4 bits | selector, 4 bits ]
//! ```
//!
//! The selector (with the extension of selectors 7 and 8) names a row of [`ROWS`]: how many slots the word has and how
//! wide each is. The first slot is in the lowest bits. In an extended row a slot is a number of trailing zeros and the
//! bits above them, so that a large multiple of a power of two fits. A slot of ones only is a missing value; a value
//! that has this pattern does not fit the row. Selector 15 repeats the last value of the word before.
//!
//! [`Words`] reads, [`pack`] writes.

mod pack;
mod words;

pub(crate) use pack::{fits, pack, pack_run, pack_settled};
pub(crate) use words::Words;

/// The selector of repetitions.
const REPEAT: u64 = 15;

/// A repetition counts in this unit.
const REPEAT_UNIT: usize = 120;

/// The most units of one word.
const REPEAT_UNITS_MAX: usize = 16;

/// The number of slots of a word that was written; none for a word that is not valid.
pub(crate) fn slots_of(word: u64) -> usize {
    match word & 15 {
        REPEAT => ((word >> 4 & 15) as usize + 1) * REPEAT_UNIT,
        _ => Row::of(word).map_or(0, |row| row.slots() as usize),
    }
}

/// One slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Missing,
    Value(u128),
}

impl Slot {
    /// The lowest 64 bits of the value.
    const fn low(self) -> Option<u64> {
        match self {
            Slot::Missing => None,
            Slot::Value(value) => Some(value as u64),
        }
    }
}

/// A layout of the slots of a word.
#[derive(Debug)]
struct Row {
    selector: u64,
    /// The extension, for selectors 7 and 8.
    extension: Option<u64>,
    /// The bits of a value, without trailing zeros.
    value_bits: u32,
    /// The bits that count trailing zeros.
    zero_bits: u32,
    /// The number of zeros that a count of one means.
    zeros_unit: u32,
}

const fn plain(selector: u64, value_bits: u32) -> Row {
    Row { selector, extension: None, value_bits, zero_bits: 0, zeros_unit: 1 }
}

const fn extended(selector: u64, extension: u64, value_bits: u32, zero_bits: u32) -> Row {
    let zeros_unit = if selector == 8 { 4 } else { 1 };
    Row { selector, extension: Some(extension), value_bits, zero_bits, zeros_unit }
}

/// The rows, by descending number of slots; among rows with the same number, the one that is preferred first.
static ROWS: &[Row] = &[
    plain(1, 1),
    plain(2, 2),
    plain(3, 3),
    plain(4, 4),
    plain(5, 5),
    plain(6, 6),
    extended(7, 1, 2, 4),
    extended(7, 0, 7, 0),
    extended(7, 2, 3, 4),
    extended(8, 0, 8, 0),
    extended(7, 3, 4, 4),
    extended(8, 1, 4, 4),
    plain(9, 10),
    extended(7, 4, 5, 4),
    extended(8, 2, 5, 4),
    extended(8, 8, 4, 5),
    plain(10, 12),
    extended(7, 5, 7, 4),
    extended(8, 3, 7, 4),
    extended(8, 9, 6, 5),
    plain(11, 15),
    extended(7, 6, 10, 4),
    extended(8, 4, 10, 4),
    extended(8, 10, 9, 5),
    plain(12, 20),
    extended(7, 7, 14, 4),
    extended(8, 5, 14, 4),
    extended(8, 11, 13, 5),
    plain(13, 30),
    extended(7, 8, 24, 4),
    extended(8, 6, 24, 4),
    extended(8, 12, 23, 5),
    plain(14, 60),
    extended(7, 9, 52, 4),
    extended(8, 7, 52, 4),
    extended(8, 13, 51, 5),
];

impl Row {
    /// The row of a word; none if no row has its selector and extension.
    fn of(word: u64) -> Option<&'static Row> {
        let selector = word & 15;
        let extension = matches!(selector, 7 | 8).then_some(word >> 4 & 15);
        ROWS.iter().find(|row| row.selector == selector && row.extension == extension)
    }

    const fn slot_bits(&self) -> u32 {
        self.value_bits + self.zero_bits
    }

    /// The position of the first slot.
    const fn shift(&self) -> u32 {
        if self.extension.is_some() { 8 } else { 4 }
    }

    const fn slots(&self) -> u32 {
        (u64::BITS - self.shift()) / self.slot_bits()
    }

    /// The pattern of a missing value.
    const fn missing(&self) -> u64 {
        (1 << self.slot_bits()) - 1
    }

    const fn header(&self) -> u64 {
        match self.extension {
            Some(extension) => self.selector | extension << 4,
            None => self.selector,
        }
    }

    /// The bits of a slot; none if the value does not fit.
    #[inline]
    fn encode(&self, slot: Slot) -> Option<u64> {
        let Slot::Value(value) = slot else { return Some(self.missing()) };
        if self.zero_bits == 0 {
            return (value < u128::from(self.missing())).then_some(value as u64);
        }
        let zeros = if value == 0 { 0 } else { value.trailing_zeros() };
        let count = (zeros / self.zeros_unit).min((1 << self.zero_bits) - 1);
        let rest = value >> (count * self.zeros_unit);
        if rest >> self.value_bits != 0 {
            return None;
        }
        let bits = (rest as u64) << self.zero_bits | u64::from(count);
        (bits != self.missing()).then_some(bits)
    }

    /// The value of a slot's bits.
    fn decode(&self, bits: u64) -> Slot {
        if bits == self.missing() {
            return Slot::Missing;
        }
        let count = bits as u32 & ((1 << self.zero_bits) - 1);
        // At most 31 * 4 zeros, so the shift is in range.
        Slot::Value(u128::from(bits >> self.zero_bits) << (count * self.zeros_unit))
    }

    /// The lowest 64 bits of the value of a slot's bits.
    #[inline]
    const fn low(&self, bits: u64) -> Option<u64> {
        if bits == self.missing() {
            return None;
        }
        let count = bits as u32 & ((1 << self.zero_bits) - 1);
        let shift = count * self.zeros_unit;
        let value = bits >> self.zero_bits;
        Some(if shift < u64::BITS { value << shift } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_their_words() {
        assert_eq!(ROWS.len(), 36);
        assert!(ROWS.is_sorted_by_key(|row| std::cmp::Reverse(row.slots())));
        for row in ROWS {
            let bits = row.shift() + row.slots() * row.slot_bits();
            assert!(bits <= 64 && bits + row.slot_bits() > 64, "{row:?}");
            assert!(std::ptr::eq(Row::of(row.header()).unwrap(), row));
        }
        for bad in [0x0, 0xF, 0xA7, 0xF7, 0xE8, 0xF8] {
            assert!(Row::of(bad).is_none(), "{bad:x}");
        }
    }

    #[test]
    fn a_slot_returns_its_value_or_does_not_fit() {
        for row in ROWS {
            for shift in 0..128 {
                for value in [0_u128, 1, 5, 0x7f, 0x3ff, (1 << 51) - 1, u128::MAX >> 70] {
                    let slot = Slot::Value(value << shift);
                    if let Some(bits) = row.encode(slot) {
                        assert_eq!(row.decode(bits), slot, "{row:?}");
                        assert_eq!(row.low(bits), slot.low(), "{row:?}");
                    }
                }
            }
            assert_eq!(row.decode(row.encode(Slot::Missing).unwrap()), Slot::Missing);
        }
    }
}
