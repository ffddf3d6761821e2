//! Differences between two versions of a value, for engines that can write a change instead of the new value.
//!
//! ```text
//!   difference   checksum of the old value (4) | of the new value (4) | length of the new value (4) | hunks
//!   hunk         bytes to keep (4) | bytes to remove (4) | bytes to insert (4) | the inserted bytes
//! ```
//!
//! All integers are little-endian. What is behind the last hunk is kept. The checksums (CRC-32C) prove that a
//! difference is applied to the value it was made of: after damage an older version may have taken its place. Those of
//! successive differences are compared with each other, so only the first value of a chain is summed up again.

use std::cell::RefCell;

/// A smaller value is written whole.
const VALUE_BYTES_MIN: usize = 128;
/// A difference may take at most one in this many parts of the new value.
const DIFFERENCE_PART: usize = 4;
/// Values of documents begin with their length, which changes with any other length.
const HEAD_BYTES: usize = 8;
/// Equal bytes between two changes that are too few for a new hunk.
const GAP_BYTES: usize = 12;

/// A value that was put together from this many differences, or up to `CHAIN_SPREAD` more, is written whole when it
/// changes again. The number depends on the value, so that values that change together are not all written whole at
/// once.
const CHAIN_MIN: usize = 8;
const CHAIN_SPREAD: u32 = 16;
/// Values that a thread remembers for that: more than a statement reads before it writes them.
const REMEMBERED: usize = 512;

thread_local! {
    /// The checksums of values with long chains that this thread has read, each in its place by the lowest bits.
    static LONG: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

fn remember_long(sum: u32, chain: usize) {
    if chain >= CHAIN_MIN + (sum / REMEMBERED as u32 % CHAIN_SPREAD) as usize {
        LONG.with_borrow_mut(|long| {
            long.resize(REMEMBERED, 0);
            long[sum as usize % REMEMBERED] = sum;
        });
    }
}

/// True if this thread has read the value with this checksum from a long chain.
fn is_long(sum: u32) -> bool {
    LONG.with_borrow(|long| long.get(sum as usize % REMEMBERED) == Some(&sum))
}

/// The value whose difference cannot be applied, because what it was made of is lost. No value that was written is
/// equal to it.
pub const LOST: &[u8] = &[0xff];

/// Appends the difference between `old` and `new` to `out`. Returns false, with `out` unchanged, if the new value
/// should be written whole: it is small, it differs too much, or `old` was put together from many differences.
pub fn append(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> bool {
    if new.len() < VALUE_BYTES_MIN
        || old.len() < HEAD_BYTES
        || u32::try_from(old.len().max(new.len())).is_err()
    {
        return false;
    }
    let sum = crc32c::crc32c(old);
    if is_long(sum) {
        return false;
    }
    let start = out.len();
    for sum in [sum, crc32c::crc32c(new)] {
        out.extend_from_slice(&sum.to_le_bytes());
    }
    put_number(out, new.len());
    let mut hunks = Hunks { kept: 0, end: start + new.len() / DIFFERENCE_PART, out };
    let fits = match old.len() == new.len() {
        true => hunks.compare(old, new),
        false => {
            let ((old_head, old), (new_head, new)) =
                (old.split_at(HEAD_BYTES), new.split_at(HEAD_BYTES));
            hunks.compare(old_head, new_head) && hunks.replace_middle(old, new)
        }
    };
    if !fits {
        out.truncate(start);
    }
    fits
}

/// The value after all differences, which are those since `old`, oldest first. None if one of them is not a difference
/// of the value before it.
pub fn apply<'d>(old: &[u8], differences: impl IntoIterator<Item = &'d [u8]>) -> Option<Vec<u8>> {
    let (mut value, mut next) = (Vec::new(), Vec::new());
    let (mut sum, mut chain) = (crc32c::crc32c(old), 0);
    for difference in differences {
        chain += 1;
        let mut rest = Rest(difference);
        if rest.number()? != sum {
            return None;
        }
        sum = rest.number()?;
        let length = rest.number()? as usize;
        let before = if value.is_empty() { old.len() } else { value.len() };
        // What comes from the disk must not ask for more memory than the result can take.
        if length > before + difference.len() {
            return None;
        }
        if value.is_empty() {
            value.reserve(length.max(old.len()));
            value.extend_from_slice(old);
        }
        if !replace_in_place(&mut value, length, Rest(rest.0))? {
            next.clear();
            next.reserve(length);
            rebuild(&value, rest, &mut next)?;
            std::mem::swap(&mut value, &mut next);
        }
        if value.len() != length {
            return None;
        }
    }
    remember_long(sum, chain);
    Some(value)
}

/// Applies hunks that replace bytes by as many others. Returns false, with some of them applied, if there are others:
/// to apply those again changes nothing.
fn replace_in_place(value: &mut [u8], length: usize, mut rest: Rest<'_>) -> Option<bool> {
    if value.len() != length {
        return Some(false);
    }
    let mut at = 0_usize;
    while !rest.0.is_empty() {
        let hunk = rest.hunk()?;
        if hunk.removed != hunk.inserted.len() {
            return Some(false);
        }
        at = at.checked_add(hunk.kept)?;
        let end = at.checked_add(hunk.removed)?;
        value.get_mut(at..end)?.copy_from_slice(hunk.inserted);
        at = end;
    }
    Some(true)
}

fn rebuild(old: &[u8], mut rest: Rest<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut old = Rest(old);
    while !rest.0.is_empty() {
        let hunk = rest.hunk()?;
        out.extend_from_slice(old.take(hunk.kept)?);
        old.take(hunk.removed)?;
        out.extend_from_slice(hunk.inserted);
    }
    out.extend_from_slice(old.0);
    Some(())
}

struct Hunk<'b> {
    kept: usize,
    removed: usize,
    inserted: &'b [u8],
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_le_bytes());
}

/// What is still to be read.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*taken))
    }

    fn hunk(&mut self) -> Option<Hunk<'b>> {
        let mut number = || self.number().map(|number| number as usize);
        let (kept, removed, inserted) = (number()?, number()?, number()?);
        Some(Hunk { kept, removed, inserted: self.take(inserted)? })
    }
}

/// A difference that is being written.
struct Hunks<'o> {
    /// Bytes that are equal, since the last hunk.
    kept: usize,
    /// The largest length of `out`.
    end: usize,
    out: &'o mut Vec<u8>,
}

impl Hunks<'_> {
    /// Returns false if the difference has become too large.
    fn put(&mut self, removed: usize, inserted: &[u8]) -> bool {
        if self.out.len() + inserted.len() > self.end {
            return false;
        }
        put_number(self.out, self.kept);
        put_number(self.out, removed);
        put_number(self.out, inserted.len());
        self.out.extend_from_slice(inserted);
        self.kept = 0;
        true
    }

    /// Hunks for values of the same length, whose bytes are replaced in their places.
    fn compare(&mut self, old: &[u8], new: &[u8]) -> bool {
        let mut at = 0;
        loop {
            let equal = common_prefix(&old[at..], &new[at..]);
            self.kept += equal;
            at += equal;
            if at == new.len() {
                return true;
            }
            let start = at;
            at += changed_prefix(&old[at..], &new[at..]);
            if !self.put(at - start, &new[start..at]) {
                return false;
            }
        }
    }

    /// One hunk for everything between the equal bytes at the beginning and at the end.
    fn replace_middle(&mut self, old: &[u8], new: &[u8]) -> bool {
        let equal = common_prefix(old, new);
        self.kept += equal;
        let (old, new) = (&old[equal..], &new[equal..]);
        let equal = common_suffix(old, new);
        self.put(old.len() - equal, &new[..new.len() - equal])
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const WORD: usize = 8;
    let (words_a, words_b) = (a.as_chunks::<WORD>().0, b.as_chunks::<WORD>().0);
    let words = words_a.iter().zip(words_b).take_while(|(a, b)| a == b).count();
    let start = words * WORD;
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// The number of bytes before the first `GAP_BYTES` equal ones, or before the equal ones at the end.
fn changed_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut end = 0;
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        if a != b {
            end = at + 1;
        } else if at - end >= GAP_BYTES {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The difference, which must restore the new value.
    fn difference(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        if !append(old, new, &mut out) {
            assert_eq!(out, b"before");
            return None;
        }
        let difference = out.split_off(6);
        assert_eq!(apply(old, [&*difference]).as_deref(), Some(new));
        Some(difference)
    }

    #[test]
    fn a_changed_number_takes_few_bytes() {
        let old: Vec<u8> = (0..1000_u32).map(|n| (n % 251) as u8).collect();
        let mut new = old.clone();
        new[500] ^= 1;
        assert_eq!(difference(&old, &new).map(|d| d.len()), Some(12 + 13));
        new[900] ^= 1;
        assert_eq!(difference(&old, &new).map(|d| d.len()), Some(12 + 26));
        assert_eq!(difference(&old, &old).map(|d| d.len()), Some(12));
    }

    #[test]
    fn an_added_field_takes_its_own_bytes_and_the_length() {
        let mut old = vec![7; 1000];
        old[1..5].copy_from_slice(&999_u32.to_le_bytes());
        let mut new = old.clone();
        new[1..5].copy_from_slice(&1019_u32.to_le_bytes());
        new.splice(999..999, *b"a new field of a doc");
        assert_eq!(difference(&old, &new).map(|d| d.len()), Some(12 + 12 + 1 + 12 + 20));
    }

    #[test]
    fn small_and_different_values_have_none() {
        assert_eq!(difference(&[1; 100], &[1; 100]), None);
        assert_eq!(difference(&[1; 1000], &[2; 1000]), None);
        assert_eq!(difference(&[1; 1000], &[2; 1001]), None);
        assert_eq!(difference(b"short", &[2; 1001]), None);
    }

    #[test]
    fn a_difference_is_not_applied_to_another_value() {
        let old = vec![1; 1000];
        let mut new = old.clone();
        new[3] = 2;
        let made = difference(&old, &new).expect("it is small");
        assert_eq!(apply(&new, [&*made]), None);
        assert_eq!(apply(&[], [&*made]), None);
        for length in 0..made.len() {
            assert_ne!(apply(&old, [&made[..length]]).as_deref(), Some(&*new));
        }
    }

    #[test]
    fn a_chain_has_no_gap() {
        let values: Vec<Vec<u8>> = (0..5_u8)
            .map(|n| {
                let mut value = vec![1; 500 + usize::from(n / 2)];
                value[usize::from(n) * 9] = n;
                value
            })
            .collect();
        let made: Vec<Vec<u8>> = values
            .windows(2)
            .map(|pair| difference(&pair[0], &pair[1]).expect("it is small"))
            .collect();
        let all = || made.iter().map(Vec::as_slice);
        assert_eq!(apply(&values[0], all()).as_deref(), Some(&*values[4]));
        assert_eq!(apply(&values[2], all().skip(2)).as_deref(), Some(&*values[4]));
        assert_eq!(apply(&values[0], all().skip(1)), None);
        assert_eq!(apply(&values[0], [&*made[0], &*made[2]]), None);
    }

    #[test]
    fn a_value_of_many_differences_is_written_whole_some_time() {
        let mut chain: Vec<Vec<u8>> = Vec::new();
        let (first, mut newest) = (vec![1; 200], vec![1; 200]);
        let mut wholes = 0;
        for n in 0..200_u8 {
            let mut next = newest.clone();
            next[100] = n;
            let mut made = Vec::new();
            match append(&newest, &next, &mut made) {
                true => chain.push(made),
                false => {
                    wholes += 1;
                    break;
                }
            }
            newest = next;
            let read = apply(&first, chain.iter().map(Vec::as_slice));
            assert_eq!(read.as_deref(), Some(&*newest));
        }
        assert_eq!(wholes, 1);
        let most = CHAIN_MIN + CHAIN_SPREAD as usize;
        assert!((CHAIN_MIN..=most).contains(&chain.len()), "{}", chain.len());
    }

    proptest! {
        #[test]
        fn every_difference_restores_the_new_value(
            old in prop::collection::vec(0_u8..3, 0..600),
            edits in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..40_usize, prop::collection::vec(0_u8..3, 0..40)),
                0..4,
            ),
        ) {
            let mut new = old.clone();
            for (at, removed, inserted) in edits {
                let at = at.index(new.len() + 1);
                let end = new.len().min(at + removed);
                new.splice(at..end, inserted);
            }
            difference(&old, &new);
        }

        #[test]
        fn bytes_that_are_no_difference_do_no_harm(
            old in prop::collection::vec(any::<u8>(), 0..100),
            length in prop_oneof![0..200_u32, any::<u32>()],
            hunks in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut bytes = crc32c::crc32c(&old).to_le_bytes().to_vec();
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&hunks);
            let made = apply(&old, [&*bytes]);
            assert!(made.is_none_or(|made| made.capacity() <= 2 * (old.len() + bytes.len())));
        }
    }
}
