//! `$addToSet` and `$setUnion` over a moving window: distinct values with the number of their occurrences.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{SetItem, elements};
use crate::collation::Collation;

/// The memory of an entry beside its value: in both maps and in the queue.
const ENTRY_BYTES: usize = 112;

/// A set that counts the occurrences of its members.
pub(crate) struct Counted {
    /// True if the inputs are arrays whose elements are the members.
    of_elements: bool,
    /// The collation of strings.
    collation: Option<&'static Collation>,
    members: HashMap<Arc<SetItem>, Member, RandomState>,
    /// The members in the order of their first occurrence, by sequence number.
    order: BTreeMap<u64, Arc<SetItem>>,
    next: u64,
    /// The members that each input added.
    queue: VecDeque<Vec<Arc<SetItem>>>,
    bytes: usize,
}

struct Member {
    number: u64,
    /// The number of its occurrences in the window.
    count: u64,
}

impl Counted {
    /// A set whose members are the inputs.
    pub(crate) fn of_values(collation: Option<&'static Collation>) -> Counted {
        let (members, order, queue) = (HashMap::default(), BTreeMap::new(), VecDeque::new());
        Counted { of_elements: false, collation, members, order, next: 0, queue, bytes: 0 }
    }

    /// A set whose members are the elements of the inputs.
    pub(crate) fn of_elements(collation: Option<&'static Collation>) -> Counted {
        Counted { of_elements: true, ..Counted::of_values(collation) }
    }

    fn insert(&mut self, value: Value<'_>, brought: &mut Vec<Arc<SetItem>>) {
        let item = Arc::new(SetItem::new(value, self.collation));
        self.bytes += item.heap_bytes() + ENTRY_BYTES;
        match self.members.get_mut(&item) {
            Some(member) => member.count += 1,
            None => {
                let number = self.next;
                self.next += 1;
                self.members.insert(item.clone(), Member { number, count: 1 });
                self.order.insert(number, item.clone());
            }
        }
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
            if let Some(member) = self.members.get_mut(&item) {
                member.count -= 1;
                if member.count == 0 {
                    self.order.remove(&member.number);
                    self.members.remove(&item);
                }
            }
        }
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.array(|out| self.order.values().for_each(|item| out.push(item.value())));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes + self.queue.len() * size_of::<Vec<Arc<SetItem>>>()
    }
}
