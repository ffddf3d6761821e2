//! A list of values that a state keeps, with the memory they take.

use std::collections::VecDeque;

use nagi_bson::{Value, ValueBuf, ValueSlot};

use super::held_bytes;

/// Values in order, and their memory.
#[derive(Default)]
pub(crate) struct Queue {
    values: VecDeque<ValueBuf>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn push(&mut self, value: Value<'_>) {
        let value = self.counted(value);
        self.values.push_back(value);
    }

    /// Puts a value before the one at `at`.
    pub(super) fn insert(&mut self, at: usize, value: Value<'_>) {
        let value = self.counted(value);
        self.values.insert(at, value);
    }

    fn counted(&mut self, value: Value<'_>) -> ValueBuf {
        let value = ValueBuf::new(value);
        self.bytes += held_bytes(&value);
        value
    }

    /// Forgets the first one.
    pub(crate) fn shift(&mut self) {
        self.bytes -= self.values.pop_front().as_ref().map_or(0, held_bytes);
    }

    /// Forgets the last one.
    pub(crate) fn pop(&mut self) {
        self.bytes -= self.values.pop_back().as_ref().map_or(0, held_bytes);
    }

    pub(crate) fn first(&self) -> Option<Value<'_>> {
        self.values.front().map(ValueBuf::value)
    }

    pub(crate) fn last(&self) -> Option<Value<'_>> {
        self.values.back().map(ValueBuf::value)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'_>> + ExactSizeIterator {
        self.values.iter().map(ValueBuf::value)
    }

    /// How many values come before another one. They are sorted: those that come before it are the first ones.
    pub(super) fn place(&self, comes_before: impl Fn(Value<'_>) -> bool) -> usize {
        self.values.partition_point(|value| comes_before(value.value()))
    }

    /// Writes all as an array.
    pub(super) fn write(&self, out: ValueSlot<'_>) {
        out.array(|out| self.iter().for_each(|value| out.push(value)));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
