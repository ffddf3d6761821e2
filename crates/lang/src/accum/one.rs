//! `$min`, `$max`, `$first`, `$last`: states that keep one value.
//!
//! They do the same as the states of n values ([`super::ranked`], [`super::positions`]) with n = 1, and are kept
//! apart from them for speed: a number that replaces another one needs no memory, and there is no list to search.

use std::cmp::Ordering;

use nagi_bson::{KeptValue, Value, ValueSlot};
use nagi_error::Result;

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::collation::{self, Collation};
use crate::expr::ParseCx;
use crate::window::{Extremum, Pick, Ring};

/// Which value a state keeps.
pub(crate) trait Keep: Send {
    /// Whether `value` takes the place of what is kept so far.
    fn takes(&self, value: Value<'_>, kept: Option<&KeptValue>) -> bool;
}

/// The first value. As for [`Last`], a missing one counts as null.
struct First;

/// The last value.
struct Last;

/// The smallest or largest value by BSON order; null and missing do not count.
#[derive(Clone, Copy)]
pub(crate) struct Best {
    wanted: Ordering,
    collation: Option<&'static Collation>,
}

impl Best {
    /// `Less` looks for the smallest, `Greater` for the largest value.
    pub(crate) fn new(wanted: Ordering, collation: Option<&'static Collation>) -> Best {
        Best { wanted, collation }
    }

    /// Whether `value` is better than `other`.
    pub(crate) fn prefers(&self, value: Value<'_>, other: Value<'_>) -> bool {
        collation::values(value, other, self.collation) == self.wanted
    }

    /// Puts better values first.
    pub(super) fn compare(&self, a: Value<'_>, b: Value<'_>) -> Ordering {
        let order = collation::values(a, b, self.collation);
        if self.wanted.is_gt() { order.reverse() } else { order }
    }
}

impl Keep for First {
    fn takes(&self, _: Value<'_>, kept: Option<&KeptValue>) -> bool {
        kept.is_none()
    }
}

impl Keep for Last {
    fn takes(&self, _: Value<'_>, _: Option<&KeptValue>) -> bool {
        true
    }
}

impl Keep for Best {
    fn takes(&self, value: Value<'_>, kept: Option<&KeptValue>) -> bool {
        !value.is_nullish() && kept.is_none_or(|kept| self.prefers(value, kept.value()))
    }
}

/// The one value that `K` keeps.
pub(crate) struct One<K> {
    keep: K,
    value: Option<KeptValue>,
}

impl<K: Keep> One<K> {
    pub(crate) fn new(keep: K) -> One<K> {
        One { keep, value: None }
    }
}

impl<K: Keep> Accumulator for One<K> {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if self.keep.takes(value, self.value.as_ref()) {
            self.value = Some(KeptValue::new(value));
        }
        Ok(())
    }

    /// As an array, because null is a value to `$first`.
    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.value.iter().for_each(|v| out.push(v.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(match self.value.as_ref().map(KeptValue::value) {
            None | Some(Value::Missing) => Value::Null,
            Some(value) => value,
        });
    }

    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, KeptValue::heap_bytes)
    }
}

pub(super) fn parse_best(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    wanted: Ordering,
) -> Result<Parsed> {
    let best = Best::new(wanted, cx.collation());
    let parsed = single(name, value, cx, move || One::new(best))?;
    Ok(parsed.sliding(move || Extremum::new(best)))
}

pub(super) fn parse_first(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    Ok(single(name, value, cx, || One::new(First))?.sliding(|| Ring::new(Pick::First)))
}

pub(super) fn parse_last(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    Ok(single(name, value, cx, || One::new(Last))?.sliding(|| Ring::new(Pick::Last)))
}
