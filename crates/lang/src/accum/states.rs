//! The states of one accumulator for all groups of a `$group`, by the number of the group.
//!
//! They are stored side by side in pages, so a group costs only the size of its state and no separate allocation.
//! Pages are not moved: adding the second million of groups does not copy the first one.

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::Accumulator;
use crate::expr::Vars;

/// The number of items of a page. The first page grows up to this size, so that a few groups use little memory.
const PAGE: usize = 1024;

/// Items by number, in pages that are not moved.
pub struct Numbered<T> {
    pages: Vec<Vec<T>>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { pages: Vec::new() }
    }
}

impl<T> Numbered<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    pub fn is_empty(&self) -> bool {
        self.pages.first().is_none_or(Vec::is_empty)
    }

    pub fn push(&mut self, item: T) {
        match self.pages.last_mut() {
            Some(last) if last.len() < PAGE => last.push(item),
            last => {
                let mut page = Vec::with_capacity(if last.is_some() { PAGE } else { 4 });
                page.push(item);
                self.pages.push(page);
            }
        }
    }

    /// The item at an index below `len`.
    #[inline]
    pub fn at(&self, at: usize) -> &T {
        &self.pages[at / PAGE][at % PAGE]
    }

    #[inline]
    pub fn at_mut(&mut self, at: usize) -> &mut T {
        &mut self.pages[at / PAGE][at % PAGE]
    }

    /// The memory of the items in bytes, without the memory that they refer to.
    #[inline]
    pub fn bytes(&self) -> usize {
        let last = self.pages.last().map_or(0, Vec::capacity);
        (self.pages.len().saturating_sub(1) * PAGE + last) * size_of::<T>()
    }

    pub(super) fn into_items(self) -> impl Iterator<Item = T> {
        self.pages.into_iter().flatten()
    }

    /// Removes all items; a small part of the first page's capacity is kept.
    pub fn clear(&mut self) {
        self.pages.truncate(1);
        if let Some(first) = self.pages.first_mut() {
            first.clear();
            first.shrink_to(PAGE / 16);
        }
    }
}

/// The states of one accumulator, by group. Methods with a number panic for a group that was not pushed. They
/// correspond to the methods of [`Accumulator`].
pub trait States: Send {
    /// Adds a state for the next group.
    fn push(&mut self);

    /// Called before all other methods for a group, with its key.
    ///
    /// # Errors
    /// The errors of a script.
    fn start(&mut self, at: usize, key: Value<'_>, vars: &Vars<'_>, now_ms: i64) -> Result<()>;

    /// Adds the argument's value for one document of the group.
    ///
    /// # Errors
    /// The errors of [`Accumulator::add_in`].
    fn add(&mut self, at: usize, value: Value<'_>, vars: &Vars<'_>) -> Result<()>;

    /// Adds the argument's value for `count` documents of the group that all have it.
    ///
    /// # Errors
    /// The errors of [`States::add`].
    fn add_many(
        &mut self,
        at: usize,
        value: Value<'_>,
        count: usize,
        vars: &Vars<'_>,
    ) -> Result<()> {
        (0..count).try_for_each(|_| self.add(at, value, vars))
    }

    /// Adds doubles, the values of one document after another.
    ///
    /// # Errors
    /// The errors of [`States::add`].
    fn add_doubles(&mut self, at: usize, values: &[f64], vars: &Vars<'_>) -> Result<()> {
        values.iter().try_for_each(|value| self.add(at, Value::Double(*value), vars))
    }

    /// Merges a state that `partial` wrote for the same group.
    ///
    /// # Errors
    /// The errors of [`Accumulator::merge_in`].
    fn merge(&mut self, at: usize, part: Value<'_>, vars: &Vars<'_>) -> Result<()>;

    /// Writes the state in the form that `merge` reads.
    fn partial(&self, at: usize, out: ValueSlot<'_>);

    /// Writes the result. Afterwards the state is empty and uses no memory beside its own size.
    ///
    /// # Errors
    /// The errors of [`Accumulator::settle`].
    fn finish(&mut self, at: usize, vars: &Vars<'_>, out: ValueSlot<'_>) -> Result<()>;

    /// The memory of all states in bytes.
    fn bytes(&self) -> usize;

    /// False if `add` never needs more memory for a group that exists.
    fn grows(&self) -> bool {
        true
    }

    /// Removes all groups.
    fn clear(&mut self);
}

/// The states of any accumulator.
pub(super) struct Flat<A, N> {
    new: N,
    states: Numbered<A>,
    /// The memory in bytes that the states use beside their size.
    held: usize,
}

impl<A: Accumulator, N: Fn() -> A + Send> Flat<A, N> {
    pub(super) fn new(new: N) -> Flat<A, N> {
        Flat { new, states: Numbered::default(), held: 0 }
    }

    /// Changes a state and updates the total of the memory that the states use.
    #[inline]
    fn change<T>(&mut self, at: usize, how: impl FnOnce(&mut A) -> T) -> T {
        let state = self.states.at_mut(at);
        let before = state.bytes();
        let done = how(state);
        self.held = (self.held + state.bytes()).saturating_sub(before);
        done
    }
}

impl<A: Accumulator, N: Fn() -> A + Send> States for Flat<A, N> {
    fn push(&mut self) {
        let state = (self.new)();
        self.held += state.bytes();
        self.states.push(state);
    }

    fn start(&mut self, at: usize, key: Value<'_>, vars: &Vars<'_>, now_ms: i64) -> Result<()> {
        self.change(at, |state| state.start(key, vars, now_ms))
    }

    fn add(&mut self, at: usize, value: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        self.change(at, |state| state.add_in(value, vars))
    }

    fn add_doubles(&mut self, at: usize, values: &[f64], vars: &Vars<'_>) -> Result<()> {
        self.change(at, |state| state.add_doubles(values, vars))
    }

    fn merge(&mut self, at: usize, part: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        self.change(at, |state| state.merge_in(part, vars))
    }

    fn partial(&self, at: usize, out: ValueSlot<'_>) {
        self.states.at(at).partial(out);
    }

    fn finish(&mut self, at: usize, vars: &Vars<'_>, out: ValueSlot<'_>) -> Result<()> {
        let state = self.states.at_mut(at);
        self.held = self.held.saturating_sub(state.bytes());
        state.settle(vars)?;
        state.finish(out);
        *state = (self.new)();
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.states.bytes() + self.held
    }

    fn clear(&mut self) {
        self.states.clear();
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_numbers() {
        let mut items = Numbered::default();
        assert!(items.is_empty() && items.bytes() == 0);
        for n in 0..3 * PAGE as u64 + 5 {
            assert_eq!(items.len() as u64, n);
            items.push(n);
        }
        *items.at_mut(PAGE) += 1;
        assert_eq!((*items.at(PAGE - 1), *items.at(PAGE)), (PAGE as u64 - 1, PAGE as u64 + 1));
        assert_eq!(items.bytes(), 4 * PAGE * 8);
        items.clear();
        assert!(items.is_empty() && items.bytes() <= PAGE * 8);
        items.push(7);
        assert_eq!(items.into_items().collect::<Vec<_>>(), [7]);
    }
}
