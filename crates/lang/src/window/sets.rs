//! `$addToSet` and `$setUnion` over a moving window: different values, with how often each is there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{SetItem, elements};
use crate::collation::Collation;

/// Memory of an entry beside its value: in the map and in the queue.
const ENTRY_BYTES: usize = 64;

/// A set that counts.
pub(crate) struct Counted {
    /// Whether inputs are arrays whose elements count.
    of_elements: bool,
    /// How strings compare.
    collation: Option<&'static Collation>,
    counts: HashMap<Arc<SetItem>, u64, foldhash::fast::FixedState>,
    /// What each input brought.
    queue: VecDeque<Vec<Arc<SetItem>>>,
    bytes: usize,
}

impl Counted {
    /// Each input is a member.
    pub(crate) fn of_values(collation: Option<&'static Collation>) -> Counted {
        let (counts, queue) = (HashMap::default(), VecDeque::new());
        Counted { of_elements: false, collation, counts, queue, bytes: 0 }
    }

    /// Each element of an input is a member.
    pub(crate) fn of_elements(collation: Option<&'static Collation>) -> Counted {
        Counted { of_elements: true, ..Counted::of_values(collation) }
    }

    fn insert(&mut self, value: Value<'_>, brought: &mut Vec<Arc<SetItem>>) {
        let item = Arc::new(SetItem::new(value, self.collation));
        self.bytes += item.heap_bytes() + ENTRY_BYTES;
        *self.counts.entry(item.clone()).or_insert(0) += 1;
        brought.push(item);
    }
}

impl WindowState for Counted {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let mut brought = Vec::new();
        if self.of_elements {
            elements("$setUnion", value)?.iter().for_each(|item| self.insert(item, &mut brought));
        } else if !value.is_missing() {
            self.insert(value, &mut brought);
        }
        self.queue.push_back(brought);
        Ok(())
    }

    fn remove(&mut self) {
        for item in self.queue.pop_front().unwrap_or_default() {
            self.bytes -= item.heap_bytes() + ENTRY_BYTES;
            if let Some(count) = self.counts.get_mut(&item) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&item);
                }
            }
        }
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.array(|out| self.counts.keys().for_each(|item| out.push(item.value())));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes + self.queue.len() * size_of::<Vec<Arc<SetItem>>>()
    }
}
