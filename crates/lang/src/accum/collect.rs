//! `$push` and `$addToSet`: all values, or all distinct values, as an array.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use foldhash::fast::RandomState;
use nagi_bson::{Value, ValueBuf, ValueSlot, compare};
use nagi_error::{Code, Result, bail};

use super::spec::single;
use super::{Accumulator, Parsed, Queue};
use crate::collation::Collation;
use crate::expr::ParseCx;
use crate::window::{Counted, Pick, Ring};

/// The maximal memory of the values of one group, in bytes.
const COLLECT_BYTES_MAX: usize = 100 * 1024 * 1024;

pub(super) fn parse_push(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    Ok(single(name, value, cx, || Push::new("$push"))?.sliding(|| Ring::new(Pick::All)))
}

pub(super) fn parse_add_to_set(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let own = cx.collation();
    Ok(single(name, value, cx, move || AddToSet::new("$addToSet", own))?
        .sliding(move || Counted::of_values(own)))
}

fn check_memory(name: &str, bytes: usize) -> Result<()> {
    if bytes > COLLECT_BYTES_MAX {
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "{name} used too much memory and cannot spill to disk. Memory limit: \
             {COLLECT_BYTES_MAX} bytes"
        );
    }
    Ok(())
}

/// All values.
pub(super) struct Push {
    name: &'static str,
    values: Queue,
}

impl Push {
    /// `name` is the operator in the error about the memory limit.
    pub(super) fn new(name: &'static str) -> Push {
        Push { name, values: Queue::default() }
    }
}

impl Accumulator for Push {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if !value.is_missing() {
            self.values.push(value);
            check_memory(self.name, self.values.bytes())?;
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        self.values.write(out);
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// A value with the equality and hash of MongoDB, under a collation if there is one.
pub(crate) struct SetItem {
    value: ValueBuf,
    /// The value with its strings replaced by their collation keys, if the collation applies to it.
    key: Option<Box<ValueBuf>>,
}

impl SetItem {
    pub(crate) fn new(value: Value<'_>, collation: Option<&'static Collation>) -> SetItem {
        let key = collation.and_then(|collation| collation.keyed(value)).map(Box::new);
        SetItem { value: ValueBuf::new(value), key }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        self.value.value()
    }

    /// The memory in bytes beside its own size.
    pub(crate) fn heap_bytes(&self) -> usize {
        let key = |key: &ValueBuf| key.heap_bytes() + size_of::<ValueBuf>();
        self.value.heap_bytes() + self.key.as_deref().map_or(0, key)
    }

    fn compared(&self) -> Value<'_> {
        self.key.as_deref().unwrap_or(&self.value).value()
    }
}

impl PartialEq for SetItem {
    fn eq(&self, other: &SetItem) -> bool {
        compare::equal(self.compared(), other.compared())
    }
}

impl Eq for SetItem {}

impl Hash for SetItem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        compare::hash(self.compared(), state);
    }
}

/// The distinct values in the order of their first occurrence. Of equal values the first one is kept.
pub(super) struct AddToSet {
    name: &'static str,
    collation: Option<&'static Collation>,
    /// Each item has the index of the previous item with the same hash.
    items: Vec<(SetItem, Option<u32>)>,
    /// The index of the newest item of each hash.
    heads: HashMap<u64, u32, RandomState>,
    bytes: usize,
}

/// The memory of an item beside its value: its place in the list, the entry of its hash, and their spare capacity.
const ITEM_BYTES: usize = 2 * size_of::<(SetItem, Option<u32>)>() + 40;

impl AddToSet {
    /// `name` is the operator in the error about the memory limit.
    pub(super) fn new(name: &'static str, collation: Option<&'static Collation>) -> AddToSet {
        AddToSet { name, collation, items: Vec::new(), heads: HashMap::default(), bytes: 0 }
    }
}

impl Accumulator for AddToSet {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if !value.is_missing() {
            let item = SetItem::new(value, self.collation);
            let hash = compare::hash_of(item.compared());
            let before = self.heads.get(&hash).copied();
            let mut at = before;
            while let Some(number) = at {
                let (old, next) = &self.items[number as usize];
                if *old == item {
                    return Ok(());
                }
                at = *next;
            }
            self.bytes += item.heap_bytes() + ITEM_BYTES;
            check_memory(self.name, self.bytes)?;
            self.heads.insert(hash, self.items.len() as u32);
            self.items.push((item, before));
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.items.iter().for_each(|(item, _)| out.push(item.value())));
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
