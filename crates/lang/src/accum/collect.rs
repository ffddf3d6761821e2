//! `$push` and `$addToSet`: all values, or all different ones, as an array.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use nagi_bson::{Value, ValueBuf, ValueSlot, compare};
use nagi_error::{Code, Result, bail};

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::collation::Collation;
use crate::expr::ParseCx;
use crate::window::{Counted, Pick, Ring};

/// What one group may collect.
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
    Ok(match cx.collation() {
        None => single(name, value, cx, || AddToSet::new("$addToSet"))?,
        Some(collation) => single(name, value, cx, move || CollatedSet::new(collation))?,
    }
    .sliding(Counted::of_values))
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
    values: Vec<ValueBuf>,
    bytes: usize,
}

impl Push {
    /// `name` is for the error when memory is full.
    pub(super) fn new(name: &'static str) -> Push {
        Push { name, values: Vec::new(), bytes: 0 }
    }
}

impl Accumulator for Push {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if !value.is_missing() {
            let value = ValueBuf::new(value);
            self.bytes += value.heap_bytes() + size_of::<ValueBuf>();
            check_memory(self.name, self.bytes)?;
            self.values.push(value);
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|v| self.add(v)),
            other => self.add(other),
        }
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.values.iter().for_each(|v| out.push(v.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.partial(out);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A value whose equality and hash are MongoDB's.
pub(crate) struct SetItem(pub(crate) ValueBuf);

impl PartialEq for SetItem {
    fn eq(&self, other: &SetItem) -> bool {
        compare::equal(self.0.value(), other.0.value())
    }
}

impl Eq for SetItem {}

impl Hash for SetItem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        compare::hash(self.0.value(), state);
    }
}

/// All different values.
pub(super) struct AddToSet {
    name: &'static str,
    seen: HashSet<SetItem, foldhash::fast::FixedState>,
    bytes: usize,
}

impl AddToSet {
    /// `name` is for the error when memory is full.
    pub(super) fn new(name: &'static str) -> AddToSet {
        AddToSet { name, seen: HashSet::default(), bytes: 0 }
    }
}

impl Accumulator for AddToSet {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if !value.is_missing() {
            let item = SetItem(ValueBuf::new(value));
            let bytes = item.0.heap_bytes() + size_of::<SetItem>() + 16;
            if self.seen.insert(item) {
                self.bytes += bytes;
                check_memory(self.name, self.bytes)?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|v| self.add(v)),
            other => self.add(other),
        }
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.seen.iter().for_each(|item| out.push(item.0.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.partial(out);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The different values under a collation; of equal ones the first stays.
struct CollatedSet {
    collation: &'static Collation,
    values: Vec<ValueBuf>,
    /// The values with strings replaced by their keys.
    seen: HashSet<SetItem, foldhash::fast::FixedState>,
    bytes: usize,
}

impl CollatedSet {
    fn new(collation: &'static Collation) -> CollatedSet {
        CollatedSet { collation, values: Vec::new(), seen: HashSet::default(), bytes: 0 }
    }
}

impl Accumulator for CollatedSet {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if value.is_missing() {
            return Ok(());
        }
        let key = self.collation.keyed(value).unwrap_or_else(|| ValueBuf::new(value));
        let key_bytes = key.heap_bytes() + size_of::<SetItem>() + 16;
        if self.seen.insert(SetItem(key)) {
            let value = ValueBuf::new(value);
            self.bytes += key_bytes + value.heap_bytes() + size_of::<ValueBuf>();
            check_memory("$addToSet", self.bytes)?;
            self.values.push(value);
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|v| self.add(v)),
            other => self.add(other),
        }
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.values.iter().for_each(|v| out.push(v.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.partial(out);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
