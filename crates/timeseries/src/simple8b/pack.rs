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

/// Packs all slots, whose values must fit. `last` is the slot that a repetition at the beginning repeats; after the
/// call, the one that a repetition after these words would repeat.
pub(crate) fn pack(mut slots: &[Slot], last: &mut Slot, out: &mut Vec<u64>) {
    while !slots.is_empty() {
        let packed = pack_one(slots, last, out);
        slots = &slots[packed..];
    }
}

/// Packs one word. Returns the number of its slots.
fn pack_one(slots: &[Slot], last: &mut Slot, out: &mut Vec<u64>) -> usize {
    let Some((word, count)) = next(slots, last, End::Known) else {
        unreachable!("values are tested by `fits` before they are packed")
    };
    out.push(word);
    // The last slot of a repetition is `last` itself.
    *last = slots[count - 1];
    count
}

const fn repetition(units: usize) -> u64 {
    REPEAT | (units as u64 - 1) << 4
}

/// The number of slots of a run to store before its repetition: all if it is not repeated often enough.
const fn before_repetition(run: usize) -> usize {
    if run > REPEAT_UNIT { (run - 1) % REPEAT_UNIT + 1 } else { run }
}

/// Packs the first slots, as far as it does not matter which slots may follow, and removes them.
pub(crate) fn pack_settled(slots: &mut Vec<Slot>, last: &mut Slot, out: &mut Vec<u64>) {
    let mut rest = &slots[..];
    while let Some((word, count)) = next(rest, last, End::Open) {
        out.push(word);
        *last = rest[count - 1];
        rest = &rest[count..];
    }
    let packed = slots.len() - rest.len();
    slots.drain(..packed);
}

/// Packs `count` slots that are all the same, as [`pack`] does.
pub(crate) fn pack_run(slot: Slot, mut count: usize, last: &mut Slot, out: &mut Vec<u64>) {
    let few = [slot; REPEAT_UNIT];
    while count > 0 {
        let units = if slot == *last { (count / REPEAT_UNIT).min(REPEAT_UNITS_MAX) } else { 0 };
        if units > 0 {
            out.push(repetition(units));
            count -= units * REPEAT_UNIT;
        } else {
            count -= pack_one(&few[..before_repetition(count)], last, out);
        }
    }
}

/// Whether more slots may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Known,
    Open,
}

/// The first word and the number of its slots; none if it depends on what follows.
fn next(slots: &[Slot], last: &Slot, end: End) -> Option<(u64, usize)> {
    let first = slots.first()?;
    let same = slots.iter().take_while(|slot| *slot == first).count();
    // The length of a repetition must be known.
    if end == End::Open && same == slots.len() {
        return None;
    }
    let units = if first == last { (same / REPEAT_UNIT).min(REPEAT_UNITS_MAX) } else { 0 };
    if units > 0 {
        return Some((repetition(units), units * REPEAT_UNIT));
    }
    let before = before_repetition(same);
    if before < same { fill(&slots[..before], End::Known) } else { fill(slots, end) }
}

/// The word that stores the most slots. Every slot of a word counts, so a word that would not be full is not used.
fn fill(slots: &[Slot], end: End) -> Option<(u64, usize)> {
    // The slot that did not fit the last row: most often it does not fit the next one.
    let mut hard = 0;
    for row in ROWS {
        let count = row.slots() as usize;
        if slots.len() < count && end == End::Known {
            continue;
        }
        if hard < count && row.encode(slots[hard]).is_none() {
            continue;
        }
        let mut word = row.header();
        let mut at = row.shift();
        let refused = slots.iter().take(count).position(|slot| match row.encode(*slot) {
            Some(bits) => {
                word |= bits << at;
                at += row.slot_bits();
                false
            }
            None => true,
        });
        match refused {
            Some(refused) => hard = refused,
            None => return (slots.len() >= count).then_some((word, count)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simple8b::Words;

    fn round_trip(slots: &[Slot]) -> usize {
        let mut words = Vec::new();
        pack(slots, &mut Slot::Value(0), &mut words);
        if slots.iter().all(|slot| *slot == slots[0]) {
            let mut run = Vec::new();
            pack_run(slots[0], slots.len(), &mut Slot::Value(0), &mut run);
            assert_eq!(run, words);
        }
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
    fn runs_of_any_length_are_packed_as_slots() {
        for slot in [Slot::Value(0), Slot::Value(1), Slot::Value(1 << 40), Slot::Missing] {
            for count in (1..300).chain([1919, 1920, 1921, 1980, 2039, 2040, 2041, 4000]) {
                round_trip(&vec![slot; count]);
            }
        }
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
