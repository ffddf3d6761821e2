//! Writing slots as words.

use super::{REPEAT, REPEAT_UNIT, REPEAT_UNITS_MAX, ROWS, Slot};

/// True if a word can store the value.
pub(crate) fn fits(value: u128) -> bool {
    // Rows with one slot are at the end.
    ROWS.iter()
        .rev()
        .take_while(|row| row.slots() == 1)
        .any(|row| row.encode(Slot::Value(value)).is_some())
}

/// The most slots that the choice of a word looks at, unless they are all the same.
const LOOKAHEAD: usize = REPEAT_UNIT + 60;

/// Packs all slots, whose values must fit. `last` is the slot that a repetition at the beginning repeats; after the
/// call, the one that a repetition after these words would repeat.
pub(crate) fn pack(mut slots: &[Slot], last: &mut Slot, out: &mut Vec<u64>) {
    while !slots.is_empty() {
        slots = next(slots, last, out);
    }
}

/// Packs the first slots, as far as it does not matter which slots may follow, and removes them.
pub(crate) fn pack_settled(slots: &mut Vec<Slot>, last: &mut Slot, out: &mut Vec<u64>) {
    let mut rest = &slots[..];
    // The length of a repetition must be known.
    while rest.len() > LOOKAHEAD && rest.iter().any(|slot| *slot != rest[0]) {
        rest = next(rest, last, out);
    }
    let packed = slots.len() - rest.len();
    slots.drain(..packed);
}

/// Packs one word. Returns the slots after it.
fn next<'s>(slots: &'s [Slot], last: &mut Slot, out: &mut Vec<u64>) -> &'s [Slot] {
    let same = slots.iter().take_while(|slot| *slot == last).count();
    let units = (same / REPEAT_UNIT).min(REPEAT_UNITS_MAX);
    let (word, count) = match units {
        0 => fill(&slots[..before_repetition(slots)]),
        _ => (REPEAT | (units as u64 - 1) << 4, units * REPEAT_UNIT),
    };
    out.push(word);
    // The last slot of a repetition is `last` itself.
    *last = slots[count - 1];
    &slots[count..]
}

/// The number of slots to store before a repetition of the first one: all if it is not repeated often enough.
fn before_repetition(slots: &[Slot]) -> usize {
    let same = slots.iter().take_while(|slot| **slot == slots[0]).count();
    if same > REPEAT_UNIT { (same - 1) % REPEAT_UNIT + 1 } else { slots.len() }
}

/// The word that stores the most slots. Every slot of a word counts, so a word that would not be full is not used.
fn fill(slots: &[Slot]) -> (u64, usize) {
    for row in ROWS {
        let count = row.slots() as usize;
        let Some(slots) = slots.get(..count) else { continue };
        let mut word = row.header();
        let mut at = row.shift();
        let full = slots.iter().all(|slot| match row.encode(*slot) {
            Some(bits) => {
                word |= bits << at;
                at += row.slot_bits();
                true
            }
            None => false,
        });
        if full {
            return (word, count);
        }
    }
    unreachable!("values are tested by `fits` before they are packed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simple8b::Words;

    fn round_trip(slots: &[Slot]) -> usize {
        let mut words = Vec::new();
        pack(slots, &mut Slot::Value(0), &mut words);
        // Packed in steps, the words are the same.
        let (mut steps, mut pending, mut last) = (Vec::new(), Vec::new(), Slot::Value(0));
        for slot in slots {
            pending.push(*slot);
            pack_settled(&mut pending, &mut last, &mut steps);
        }
        pack(&pending, &mut last, &mut steps);
        assert_eq!(steps, words);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut reader = Words::none();
        reader.feed(&bytes);
        for (i, slot) in slots.iter().enumerate() {
            assert_eq!(reader.next().unwrap(), Some(*slot), "slot {i} of {}", slots.len());
        }
        assert!(reader.is_done());
        assert_eq!(reader.next().unwrap(), None);
        words.len()
    }

    #[test]
    fn what_fits_comes_back() {
        let values = (0..127).flat_map(|n| [1_u128 << n, (1 << n) + 1, (3 << n) - 1, (1 << n) - 1]);
        let values: Vec<u128> = values.filter(|v| fits(*v)).collect();
        assert!(values.len() > 250);
        for value in &values {
            round_trip(&[Slot::Value(*value)]);
        }
        let mixed: Vec<Slot> =
            values.iter().flat_map(|v| [Slot::Value(*v), Slot::Missing]).collect();
        round_trip(&mixed);
        assert!(!fits((1 << 60) - 1), "the pattern of a missing value");
        assert!(fits((1 << 60) - 2));
        assert!(!fits(u128::MAX));
    }

    #[test]
    fn repetitions_take_one_word() {
        assert_eq!(round_trip(&[Slot::Value(0); 120]), 1, "of the zero before the first word");
        assert_eq!(round_trip(&[Slot::Value(0); 120 * 16]), 1);
        assert_eq!(round_trip(&[Slot::Value(0); 120 * 17 + 1]), 3);
        assert_eq!(round_trip(&[Slot::Missing; 60 + 120]), 2);
        assert_eq!(round_trip(&[Slot::Value(1 << 40); 121]), 2);
        let mut slots = vec![Slot::Value(7); 300];
        slots.extend([Slot::Missing; 300]);
        slots.extend([Slot::Value(7); 300]);
        round_trip(&slots);
    }
}
