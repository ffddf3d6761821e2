//! Entries in the order of their last use, with the bytes of those used after a given one in logarithmic time.
//!
//! Every use takes the next place of a row of places; a Fenwick tree has the sums of the bytes at the places. When all
//! places are taken, the entries move together at its beginning.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Limit of entries: seven eighths of 4096, so that the map has 4096 buckets.
pub(super) const ENTRIES_MAX: usize = 3584;
const PLACES: usize = 8192;

struct Entry {
    place: u32,
    bytes: u32,
}

/// The entries. About 200 KiB, which are allocated at once: reads do not allocate.
pub(super) struct Stack {
    entries: HashMap<u64, Entry, RandomState>,
    /// The Fenwick tree: sums of bytes, numbered from 1.
    sums: Vec<u64>,
    /// The entry that took a place; it may have left it.
    owners: Vec<u64>,
    /// The next free place.
    next: usize,
    /// No entry has a place before this one.
    oldest: usize,
    bytes: u64,
}

impl Stack {
    pub(super) fn new() -> Stack {
        Stack {
            entries: HashMap::with_capacity_and_hasher(ENTRIES_MAX, RandomState::default()),
            sums: vec![0; PLACES + 1],
            owners: vec![0; PLACES],
            next: 0,
            oldest: 0,
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes an entry the one that was used last. Returns the bytes of those that had been used after it, and its own.
    pub(super) fn use_again(&mut self, hash: u64) -> Option<(u64, u64)> {
        if self.next == PLACES {
            self.close_up();
        }
        let entry = self.entries.get(&hash)?;
        let (place, bytes) = (entry.place as usize, u64::from(entry.bytes));
        let after = self.bytes - self.sum_up_to(place);
        self.add(place, bytes.wrapping_neg());
        let place = self.take_place(hash);
        self.add(place, bytes);
        if let Some(entry) = self.entries.get_mut(&hash) {
            entry.place = place as u32;
        }
        Some((after, bytes))
    }

    /// Adds an entry as the one that was used last, or corrects the size of one that exists.
    pub(super) fn put(&mut self, hash: u64, bytes: u32) {
        if let Some(entry) = self.entries.get_mut(&hash) {
            let change = u64::from(bytes).wrapping_sub(u64::from(entry.bytes));
            entry.bytes = bytes;
            let place = entry.place as usize;
            self.bytes = self.bytes.wrapping_add(change);
            self.add(place, change);
            return;
        }
        let place = self.take_place(hash);
        self.entries.insert(hash, Entry { place: place as u32, bytes });
        self.bytes += u64::from(bytes);
        self.add(place, u64::from(bytes));
    }

    pub(super) fn remove(&mut self, hash: u64) {
        if let Some(entry) = self.entries.remove(&hash) {
            self.bytes -= u64::from(entry.bytes);
            self.add(entry.place as usize, u64::from(entry.bytes).wrapping_neg());
        }
    }

    /// Removes the entry that was not used for the longest time.
    pub(super) fn remove_oldest(&mut self) {
        while self.oldest < self.next {
            let place = self.oldest;
            self.oldest += 1;
            if self.is_at(self.owners[place], place) {
                self.remove(self.owners[place]);
                return;
            }
        }
    }

    /// Removes all entries whose hash is not below `limit`.
    pub(super) fn keep_below(&mut self, limit: u64) {
        self.entries.retain(|hash, _| *hash < limit);
        self.bytes = self.entries.values().map(|entry| u64::from(entry.bytes)).sum();
        self.close_up();
    }

    fn is_at(&self, hash: u64, place: usize) -> bool {
        self.entries.get(&hash).is_some_and(|entry| entry.place as usize == place)
    }

    fn take_place(&mut self, hash: u64) -> usize {
        if self.next == PLACES {
            self.close_up();
        }
        self.owners[self.next] = hash;
        self.next += 1;
        self.next - 1
    }

    /// Moves all entries to the first places, in their order.
    fn close_up(&mut self) {
        let mut free = 0;
        for place in self.oldest..self.next {
            let hash = self.owners[place];
            if self.is_at(hash, place) {
                self.owners[free] = hash;
                free += 1;
            }
        }
        (self.oldest, self.next) = (0, free);
        self.sums.fill(0);
        for place in 0..free {
            if let Some(entry) = self.entries.get_mut(&self.owners[place]) {
                entry.place = place as u32;
                self.sums[place + 1] = u64::from(entry.bytes);
            }
        }
        for at in 1..self.sums.len() {
            let above = at + (at & at.wrapping_neg());
            if above < self.sums.len() {
                self.sums[above] += self.sums[at];
            }
        }
    }

    /// Adds to the sums; a subtraction adds the two's complement.
    fn add(&mut self, place: usize, change: u64) {
        let mut at = place + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    fn sum_up_to(&self, place: usize) -> u64 {
        let (mut at, mut sum) = (place + 1, 0_u64);
        while at > 0 {
            sum = sum.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by a list, the newest last.
    #[derive(Default)]
    struct Model(Vec<(u64, u64)>);

    impl Model {
        fn find(&self, hash: u64) -> Option<usize> {
            self.0.iter().position(|one| one.0 == hash)
        }

        fn use_again(&mut self, hash: u64) -> Option<(u64, u64)> {
            let at = self.find(hash)?;
            let one = self.0.remove(at);
            let after = self.0[at..].iter().map(|one| one.1).sum();
            self.0.push(one);
            Some((after, one.1))
        }
    }

    #[test]
    fn it_is_a_list_in_the_order_of_use() {
        let (mut stack, mut model) = (Stack::new(), Model::default());
        let mut random = 7_u64;
        let mut draw = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        for step in 0..60_000_u64 {
            let hash = draw(300) * 1000;
            match draw(100) {
                0 => {
                    stack.remove(hash);
                    model.0.retain(|one| one.0 != hash);
                }
                1 => {
                    stack.remove_oldest();
                    if !model.0.is_empty() {
                        model.0.remove(0);
                    }
                }
                2 if step % 64 == 0 => {
                    stack.keep_below(200_000);
                    model.0.retain(|one| one.0 < 200_000);
                }
                2..20 => {
                    let bytes = draw(10_000) as u32;
                    stack.put(hash, bytes);
                    match model.find(hash) {
                        Some(at) => model.0[at].1 = u64::from(bytes),
                        None => model.0.push((hash, u64::from(bytes))),
                    }
                }
                _ => assert_eq!(stack.use_again(hash), model.use_again(hash), "step {step}"),
            }
            assert_eq!(stack.len(), model.0.len());
        }
        assert_eq!(stack.bytes(), model.0.iter().map(|one| one.1).sum::<u64>());
    }
}
