//! The hash table of a group's keys. Each key has a number: the n-th distinct key is number n.
//!
//! ```text
//!   places:  [ hash (32) | number + 1 (32) ]     open addressing, at most three quarters full
//!   slots:   number -> type | bytes              values of up to 12 bytes are stored inline
//!   pages:                    bytes of longer ones
//! ```
//!
//! A group with a numeric key takes some 30 bytes here and no allocation of its own.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use nagi_bson::{Type, Value, append_payload, payload_value};
use nagi_lang::accum::Numbered;
use nagi_lang::collation::{self, Collation};

/// Limit of inline bytes; an ObjectId fits.
const INLINE_BYTES: usize = 12;
/// The length that marks a slot whose bytes are in a page.
const IN_PAGE: u8 = u8::MAX;
/// Pages double in size up to this.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 1 << 8..=1 << 20;

/// Random in each process, so that clients cannot construct colliding keys.
static FOLD: LazyLock<u64> =
    LazyLock::new(|| foldhash::fast::RandomState::default().hash_one(1u8) | 1);

/// The hash of a key. Equal keys have equal hashes within a process.
#[inline]
pub(super) fn hash_of(key: Value<'_>, collation: Option<&Collation>) -> u32 {
    let whole = u128::from(collation::hash_of(key, collation)) * u128::from(*FOLD);
    ((whole >> 64) as u32) ^ (whole as u64 >> 32) as u32
}

#[derive(Clone, Copy)]
struct Slot {
    /// The value's bytes; or page, offset and length.
    bytes: [u8; INLINE_BYTES],
    len: u8,
    kind: Type,
}

/// Distinct keys, numbered in the order of arrival.
#[derive(Default)]
pub(super) struct Table {
    /// Zero means that the place is empty.
    places: Vec<u64>,
    slots: Numbered<Slot>,
    pages: Vec<Vec<u8>>,
    page_bytes: usize,
    scratch: Vec<u8>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Total memory.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.places.len() * size_of::<u64>() + self.slots.bytes() + self.page_bytes
    }

    /// The key with a number.
    #[inline]
    pub(super) fn key(&self, number: usize) -> Value<'_> {
        let slot = self.slots.at(number);
        if slot.len != IN_PAGE {
            return payload_value(slot.kind, &slot.bytes[..usize::from(slot.len)]);
        }
        let part = |at: usize| {
            let word = slot.bytes[at..].first_chunk().expect("twelve bytes are three words");
            u32::from_le_bytes(*word) as usize
        };
        let (page, start, len) = (part(0), part(4), part(8));
        payload_value(slot.kind, &self.pages[page][start..start + len])
    }

    /// The number of a key with its hash, and true if the key is new.
    #[inline]
    pub(super) fn find(
        &mut self,
        key: Value<'_>,
        hash: u32,
        collation: Option<&Collation>,
    ) -> (usize, bool) {
        if (self.len() + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = self.places[at];
            if place == 0 {
                let number = self.len();
                self.places[at] = u64::from(hash) << 32 | (number as u64 + 1);
                self.add(key);
                return (number, true);
            }
            if (place >> 32) as u32 == hash {
                let number = place as u32 as usize - 1;
                if self.has_bytes(number, key) || collation::equal(self.key(number), key, collation)
                {
                    return (number, false);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// True if a key is the same value of the same type as the key with this number, which most equal keys are. False
    /// says nothing: equal keys may differ in their types.
    #[inline]
    fn has_bytes(&self, number: usize, key: Value<'_>) -> bool {
        let slot = self.slots.at(number);
        let inline = |bytes: &[u8]| slot.bytes[..bytes.len()] == *bytes;
        match (key, slot.kind) {
            (Value::Int32(n), Type::Int) => inline(&n.to_le_bytes()),
            (Value::Int64(n), Type::Long) => inline(&n.to_le_bytes()),
            (Value::ObjectId(id), Type::ObjectId) => inline(id),
            _ => false,
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = (self.places.len() * 2).max(8);
        let old = std::mem::replace(&mut self.places, vec![0; larger]);
        let mask = larger - 1;
        for place in old.into_iter().filter(|place| *place != 0) {
            let mut at = (place >> 32) as usize & mask;
            while self.places[at] != 0 {
                at = (at + 1) & mask;
            }
            self.places[at] = place;
        }
    }

    fn add(&mut self, key: Value<'_>) {
        self.scratch.clear();
        append_payload(&mut self.scratch, key);
        let mut slot = Slot { bytes: [0; INLINE_BYTES], len: IN_PAGE, kind: key.kind() };
        let len = self.scratch.len();
        if len <= INLINE_BYTES {
            slot.bytes[..len].copy_from_slice(&self.scratch);
            slot.len = len as u8;
        } else {
            let (page, start) = self.page_for(len);
            self.pages[page].extend_from_slice(&self.scratch);
            for (at, word) in [page, start, len].into_iter().enumerate() {
                slot.bytes[at * 4..at * 4 + 4].copy_from_slice(&(word as u32).to_le_bytes());
            }
        }
        self.slots.push(slot);
    }

    /// A page with `len` free bytes, and the offset in it.
    fn page_for(&mut self, len: usize) -> (usize, usize) {
        let fits = |page: &Vec<u8>| page.capacity() - page.len() >= len;
        if !self.pages.last().is_some_and(fits) {
            let room = self.page_bytes.clamp(*PAGE_BYTES.start(), *PAGE_BYTES.end()).max(len);
            self.pages.push(Vec::with_capacity(room));
            self.page_bytes += room;
        }
        let page = self.pages.len() - 1;
        (page, self.pages[page].len())
    }

    /// Hash and number of each key. Afterwards no key can be found any more.
    pub(super) fn take_places(&mut self) -> Vec<u64> {
        let mut places = std::mem::take(&mut self.places);
        places.retain(|place| *place != 0);
        places
    }

    /// The number in a place.
    pub(super) fn number(place: u64) -> usize {
        place as u32 as usize - 1
    }

    /// The hash in a place.
    pub(super) fn hash(place: u64) -> u32 {
        (place >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nagi_bson::ValueBuf;

    use super::*;

    /// A pseudo-random key from a small set, so that keys repeat; of all sizes and several types.
    fn key(n: u64) -> ValueBuf {
        let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let text = "x".repeat((mixed % 300) as usize);
        let doc = nagi_bson::doc! { "a": (mixed as i64 % 50), "b": "z" };
        let array = nagi_bson::array![(mixed as i32 % 9), "q"];
        ValueBuf::new(match mixed % 8 {
            0 => Value::Int32(mixed as i32 % 100),
            1 => Value::Double((mixed % 100) as f64),
            2 => Value::Int64(mixed as i64),
            3 => Value::String(&text),
            4 => Value::Doc(doc.as_doc()),
            5 => Value::Array(array.as_array()),
            6 => Value::Null,
            _ => Value::Double(f64::NAN),
        })
    }

    #[test]
    fn numbers_are_those_of_a_map() {
        let mut table = Table::default();
        let mut model: BTreeMap<String, (usize, ValueBuf)> = BTreeMap::new();
        for n in 0..20_000 {
            let key = key(n);
            // Equal numbers of different types are one key.
            let name = match key.value() {
                value if value.is_number() => {
                    format!("{:?}", nagi_bson::number::as_f64(value).map(|n| n + 0.0))
                }
                value => format!("{value:?}"),
            };
            let next = model.len();
            let known = model.contains_key(&name);
            let (number, _) = model.entry(name).or_insert_with(|| (next, key.clone()));
            let hash = hash_of(key.value(), None);
            assert_eq!(table.find(key.value(), hash, None), (*number, !known), "{key:?}");
        }
        assert_eq!(table.len(), model.len());
        for (number, key) in model.values() {
            assert!(table.key(*number).same_bytes(&key.value()), "the first one seen: {key:?}");
        }
        let places = table.take_places();
        assert_eq!(places.len(), model.len());
        for place in places {
            let key = table.key(Table::number(place));
            assert_eq!(hash_of(key, None), Table::hash(place));
        }
    }

    #[test]
    fn a_number_costs_little() {
        let mut table = Table::default();
        for n in 0..100_000 {
            let key = Value::Int64(n);
            table.find(key, hash_of(key, None), None);
        }
        assert!(table.bytes() < 100_000 * 40, "{}", table.bytes());
    }
}
