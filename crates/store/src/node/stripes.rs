//! Stripes: the keys of a collection or an index that is spread over the machines of a cluster.
//!
//! ```text
//!   Store    ident (4) | rest                    in the order of the rest: what everything above this module sees
//!   engine   ident (4) | stripe (1) | rest       stripe: a hash of the rest
//! ```
//!
//! An engine places ranges of keys, so ascending keys are all written to the last range. With stripes neighbours are in
//! different ones, and the engine is told to end a range before each ([`starts`]). The ident says how many stripes its
//! keys have, so nothing has to be looked up, and all copies of an index, its builds and its repair agree.
//!
//! A key is in one stripe, so it is looked up, tested for uniqueness, locked and written as any other. A range is in
//! all of them: a cursor merges one cursor for each, which costs as many requests at its first step, made at once. Only
//! keys of records and of the index on `_id` have stripes. Both are unique, so all entries of a value are in one
//! stripe.
//!
//! The hash: FNV-1a with 64 bits over the rest, then the finalizer of MurmurHash3; its highest bits. A part of the
//! stored format.

use std::borrow::Cow;

use nagi_kv::{Cursor, Error, Read, Result, Space};

use crate::{ident::Ident, keystring};

/// Bytes of an ident.
const HEAD: usize = 4;

/// The ident at the beginning of a key, if its keys have stripes, and how many, as a power of two.
fn striped(space: Space, key: &[u8]) -> Option<(Ident, u32)> {
    if space != Space::Index && !space.is_records() {
        return None;
    }
    let ident = Ident(u32::from_be_bytes(*key.first_chunk()?));
    let power = ident.stripes_power();
    (power > 0).then_some((ident, power))
}

fn stripe(power: u32, rest: &[u8]) -> u8 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in rest {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    ((hash ^ hash >> 33) >> (u64::BITS - power)) as u8
}

/// The engine's key of a key of the store.
pub(super) fn placed(space: Space, key: &[u8]) -> Cow<'_, [u8]> {
    match striped(space, key) {
        None => Cow::Borrowed(key),
        Some((_, power)) => {
            let (head, rest) = key.split_at(HEAD);
            Cow::Owned([head, &[stripe(power, rest)], rest].concat())
        }
    }
}

/// The engine's keys of keys of the store.
pub(super) fn placed_all<'k>(space: Space, keys: &[&'k [u8]]) -> Vec<Cow<'k, [u8]>> {
    keys.iter().map(|key| placed(space, key)).collect()
}

/// Where each stripe begins.
pub(crate) fn starts(ident: Ident) -> Vec<Vec<u8>> {
    let count = 1_u8 << ident.stripes_power();
    (0..count).map(|stripe| [&ident.bytes()[..], &[stripe]].concat()).collect()
}

/// Part of a range of the store's keys: a stripe that may have some of them.
struct Stripe {
    ident: Ident,
    number: u8,
}

impl Stripe {
    /// The engine's form of a bound: less than all keys of the stripe that are not less than it.
    fn bound(&self, key: &[u8]) -> Vec<u8> {
        let ident = self.ident.bytes();
        match key.strip_prefix(&ident) {
            Some(rest) => [&ident[..], &[self.number], rest].concat(),
            None if key < &ident[..] => [&ident[..], &[self.number]].concat(),
            None => [&ident[..], &[self.number + 1]].concat(),
        }
    }
}

/// The stripes of a range; none if its keys have no stripes.
///
/// # Errors
/// If the range has more than the keys of one ident: nothing in the store asks for that over such an engine.
fn stripes(space: Space, start: &[u8], end: &[u8]) -> Result<Option<Vec<Stripe>>> {
    let Some((ident, power)) = striped(space, start) else { return Ok(None) };
    if end.is_empty() || (!end.starts_with(&ident.bytes()) && end > &ident.end()[..]) {
        return Err(Error::other("a range of keys with stripes and of others"));
    }
    if let Some(value) = only_value(start, end) {
        return Ok(Some(vec![Stripe { ident, number: stripe(power, value) }]));
    }
    Ok(Some((0..1 << power).map(|number| Stripe { ident, number }).collect()))
}

/// The rest of the key that alone is in a range of the form that plans give to one value of `_id`.
fn only_value<'k>(start: &'k [u8], end: &[u8]) -> Option<&'k [u8]> {
    let value = &start[HEAD..];
    let is_behind = end.strip_prefix(start) == Some(&[keystring::AFTER]);
    let is_whole = keystring::field_len(value, false).is_ok_and(|length| length == value.len());
    (is_behind && is_whole).then_some(value)
}

/// The ranges of the engine's keys of a range of the store's keys.
pub(super) fn ranges(space: Space, start: &[u8], end: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let whole = || vec![(start.to_vec(), end.to_vec())];
    // All keys of an ident are one range, with and without stripes.
    if start.len() <= HEAD && end.len() <= HEAD {
        return Ok(whole());
    }
    let Some(stripes) = stripes(space, start, end)? else { return Ok(whole()) };
    Ok(stripes.iter().map(|stripe| (stripe.bound(start), stripe.bound(end))).collect())
}

/// A cursor over keys of the store. `read` is one snapshot, because there may be several cursors over it.
pub(super) fn cursor(
    read: &(impl Read + ?Sized),
    space: Space,
    start: &[u8],
    end: &[u8],
) -> Result<Box<dyn Cursor>> {
    let Some(stripes) = stripes(space, start, end)? else { return read.cursor(space, start, end) };
    let several = stripes.len();
    let walks = stripes.into_iter().map(|stripe| {
        let (from, to) = (stripe.bound(start), stripe.bound(end));
        let cursor = read.cursor_among(several, space, &from, &to)?;
        Ok(Walk { cursor, stripe, is_placed: false })
    });
    let walks = walks.collect::<Result<_>>()?;
    Ok(Box::new(Merged { walks, at: None, forward: true, key: Vec::new() }))
}

/// True if a range has keys with stripes.
pub(super) fn has_stripes(space: Space, start: &[u8]) -> bool {
    striped(space, start).is_some()
}

/// A cursor over a stripe.
struct Walk {
    cursor: Box<dyn Cursor>,
    stripe: Stripe,
    /// It is at the next of its entries in the direction of travel; false at its end.
    is_placed: bool,
}

impl Walk {
    /// The part of the key that the store's order is about.
    fn rest(&self) -> &[u8] {
        self.cursor.key().get(HEAD + 1..).unwrap_or_default()
    }

    fn prepare(&mut self, key: &[u8], forward: bool) {
        let bound = self.bound(key);
        self.cursor.prepare(&bound, forward);
    }

    fn seek(&mut self, key: &[u8], forward: bool) -> Result<()> {
        let bound = self.bound(key);
        self.is_placed = false;
        self.is_placed =
            if forward { self.cursor.seek(&bound) } else { self.cursor.seek_back(&bound) }?;
        Ok(())
    }

    /// An empty key is no bound.
    fn bound(&self, key: &[u8]) -> Vec<u8> {
        if key.is_empty() { Vec::new() } else { self.stripe.bound(key) }
    }

    fn step(&mut self, forward: bool) -> Result<()> {
        self.is_placed = false;
        self.is_placed = if forward { self.cursor.next() } else { self.cursor.prev() }?;
        Ok(())
    }
}

/// Merges the stripes of a range in the order of the store's keys.
struct Merged {
    walks: Vec<Walk>,
    /// The stripe with the current entry.
    at: Option<usize>,
    forward: bool,
    /// The current key, as the store sees it.
    key: Vec<u8>,
}

impl Merged {
    fn begin(&mut self, key: &[u8], forward: bool) -> Result<bool> {
        self.at = None;
        self.forward = forward;
        if self.walks.len() > 1 {
            self.walks.iter_mut().for_each(|walk| walk.prepare(key, forward));
        }
        for walk in &mut self.walks {
            walk.seek(key, forward)?;
        }
        Ok(self.choose())
    }

    /// Makes the nearest of all entries the current one.
    fn choose(&mut self) -> bool {
        let placed = self.walks.iter().enumerate().filter(|(_, walk)| walk.is_placed);
        let nearest = match self.forward {
            true => placed.min_by(|(_, a), (_, b)| a.rest().cmp(b.rest())),
            false => placed.max_by(|(_, a), (_, b)| a.rest().cmp(b.rest())),
        };
        self.at = nearest.map(|(at, _)| at);
        self.key.clear();
        if let Some((_, walk)) = nearest {
            self.key.extend_from_slice(&walk.stripe.ident.bytes());
            self.key.extend_from_slice(walk.rest());
        }
        self.at.is_some()
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        let Some(at) = self.at.take() else { return Ok(false) };
        if self.forward != forward {
            self.turn(at, forward)?;
        }
        self.walks[at].step(forward)?;
        Ok(self.choose())
    }

    /// Places the others on the other side of the current key, which is in no other stripe.
    fn turn(&mut self, at: usize, forward: bool) -> Result<()> {
        self.forward = forward;
        for (_, walk) in self.walks.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            walk.seek(&self.key, forward)?;
        }
        Ok(())
    }
}

impl Cursor for Merged {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(key, true)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(key, false)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(false)
    }

    fn key(&self) -> &[u8] {
        if self.at.is_some() { &self.key } else { &[] }
    }

    fn value(&self) -> &[u8] {
        self.at.map_or(&[], |at| self.walks[at].cursor.value())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ops::Bound, sync::Arc};

    use nagi_bson::Value;
    use nagi_kv::{Durability, Engine, Minimal, TxnOptions};

    use super::*;

    const IDENT: Ident = Ident(7);

    /// Keys of some numbers, as the store has them.
    fn key(ident: Ident, number: i32) -> Vec<u8> {
        let mut key = ident.bytes().to_vec();
        keystring::append(Value::Int32(number), false, &mut key);
        key
    }

    fn filled(ident: Ident) -> (Arc<dyn Engine>, BTreeMap<Vec<u8>, Vec<u8>>) {
        let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
        let mut all = BTreeMap::new();
        let mut txn = Engine::begin(&*engine, TxnOptions::default()).expect("begins");
        for number in (0..600).step_by(3) {
            let (key, value) = (key(ident, number), number.to_be_bytes().to_vec());
            txn.put(Space::Index, &placed(Space::Index, &key), &value).expect("is staged");
            all.insert(key, value);
        }
        txn.commit(Durability::Buffered).expect("commits");
        (engine, all)
    }

    fn entry(cursor: &dyn Cursor) -> Option<(Vec<u8>, Vec<u8>)> {
        let found = (!cursor.key().is_empty()).then(|| cursor.key().to_vec());
        found.map(|key| (key, cursor.value().to_vec()))
    }

    /// Random moves of a cursor with bounds agree with those of a map.
    #[test]
    fn a_merged_cursor_is_one_over_a_map() {
        for power in 1..=crate::ident::STRIPES_POWER_MAX {
            let ident = IDENT.striped(power).expect("it fits");
            let (engine, all) = filled(ident);
            let snapshot = engine.snapshot().expect("a snapshot");
            let mut random = 7_u64 + u64::from(power);
            let mut below = |end: i32| {
                random =
                    random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                ((random >> 33) % end as u64) as i32
            };
            for _ in 0..60 {
                let (one, other) = (below(650), below(650));
                let (start, end) = match below(4) {
                    0 => (ident.bytes().to_vec(), ident.end().to_vec()),
                    _ => (key(ident, one.min(other)), key(ident, one.max(other))),
                };
                let inside: BTreeMap<Vec<u8>, Vec<u8>> = all
                    .range((Bound::Included(start.clone()), Bound::Excluded(end.clone())))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                let mut cursor = cursor(&*snapshot, Space::Index, &start, &end).expect("opens");
                let mut at: Option<Vec<u8>> = None;
                let first = |range: (Bound<Vec<u8>>, Bound<Vec<u8>>)| {
                    inside.range(range).next().map(|(key, _)| key.clone())
                };
                let last = |range: (Bound<Vec<u8>>, Bound<Vec<u8>>)| {
                    inside.range(range).next_back().map(|(key, _)| key.clone())
                };
                for _ in 0..80 {
                    let to = key(ident, below(650));
                    let found = match below(6) {
                        0 => {
                            at = first((Bound::Included(to.clone()), Bound::Unbounded));
                            cursor.seek(&to)
                        }
                        1 if below(4) == 0 => {
                            at = last((Bound::Unbounded, Bound::Unbounded));
                            cursor.seek_back(&[])
                        }
                        1 => {
                            at = last((Bound::Unbounded, Bound::Excluded(to.clone())));
                            cursor.seek_back(&to)
                        }
                        2 | 3 => {
                            at = at.and_then(|at| first((Bound::Excluded(at), Bound::Unbounded)));
                            cursor.next()
                        }
                        _ => {
                            at = at.and_then(|at| last((Bound::Unbounded, Bound::Excluded(at))));
                            cursor.prev()
                        }
                    };
                    assert_eq!(found.expect("moves"), at.is_some());
                    let expected = at.as_ref().map(|at| (at.clone(), all[at].clone()));
                    assert_eq!(entry(&*cursor), expected);
                }
            }
        }
    }

    #[test]
    fn a_value_is_in_one_stripe_and_other_ranges_are_in_all() {
        let ident = IDENT.striped(4).expect("it fits");
        let count = |start: &[u8], end: &[u8]| {
            stripes(Space::Index, start, end).expect("one ident").map(|all| all.len())
        };
        let one = key(ident, 42);
        assert_eq!(count(&one, &[&one[..], &[keystring::AFTER]].concat()), Some(1));
        assert_eq!(count(&one, &key(ident, 43)), Some(16));
        assert_eq!(
            count(&ident.bytes(), &[&ident.bytes()[..], &[keystring::AFTER]].concat()),
            Some(16)
        );
        assert_eq!(count(&IDENT.bytes(), &IDENT.end()), None);
        // What begins strings that have a prefix is no value.
        let mut prefix = ident.bytes().to_vec();
        keystring::append(Value::String("ab"), false, &mut prefix);
        prefix.pop();
        assert_eq!(count(&prefix, &[&prefix[..], &[keystring::AFTER]].concat()), Some(16));
        assert!(stripes(Space::Index, &ident.bytes(), &[]).is_err());
        assert_eq!(ranges(Space::Records, &ident.bytes(), &ident.end()).expect("one").len(), 1);
        assert_eq!(ranges(Space::Index, &one, &ident.end()).expect("one ident").len(), 16);
        assert_eq!(placed(Space::Counters, &one), one, "not of counters");
    }

    /// The stored format: these stripes never change.
    #[test]
    fn ascending_keys_are_spread_evenly_and_always_to_the_same_stripes() {
        let first: Vec<u8> =
            (0..16_i64).map(|n| stripe(4, &crate::ident::number_bytes(n))).collect();
        assert_eq!(first, FIRST);
        for power in 1..=crate::ident::STRIPES_POWER_MAX {
            let mut counts = vec![0_f64; 1 << power];
            for n in 0..20_000_i64 {
                counts[usize::from(stripe(power, &crate::ident::number_bytes(n)))] += 1.0;
            }
            let expected = 20_000.0 / counts.len() as f64;
            let chi: f64 = counts.iter().map(|n| (n - expected).powi(2) / expected).sum();
            // With so many degrees of freedom, one in a million is beyond 80.
            assert!(chi < 80.0, "{power}: {chi} {counts:?}");
        }
    }

    const FIRST: [u8; 16] = [7, 11, 10, 10, 5, 2, 2, 14, 9, 13, 9, 14, 11, 8, 7, 10];
}
