//! `$concatArrays` and `$setUnion` as accumulators: the elements of all arrays, or the distinct elements.
//!
//! A missing value is ignored. Any other value that is not an array is an error (14).

use nagi_bson::{Array, Value, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::collect::{AddToSet, Push};
use super::spec::single;
use super::{Accumulator, Parsed};
use crate::expr::ParseCx;
use crate::window::{Counted, Pick, Ring};

pub(super) fn parse_concat(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    Ok(single(name, value, cx, || Elements {
        name: "$concatArrays",
        inner: Push::new("$concatArrays"),
    })?
    .sliding(|| Ring::new(Pick::Elements)))
}

pub(super) fn parse_union(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let own = cx.collation();
    Ok(single(name, value, cx, move || Elements {
        name: "$setUnion",
        inner: AddToSet::new("$setUnion", own),
    })?
    .sliding(move || Counted::of_elements(own)))
}

/// The elements of an input; empty for a missing input.
pub(crate) fn elements<'a>(name: &str, value: Value<'a>) -> Result<Array<'a>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Missing => Ok(Array::EMPTY),
        other => bail!(
            Code::TYPE_MISMATCH,
            "{name} requires array inputs, but input {other} is of type {}",
            other.kind().name()
        ),
    }
}

/// Passes each element of its inputs to another accumulator.
struct Elements<A> {
    name: &'static str,
    inner: A,
}

impl<A: Accumulator> Accumulator for Elements<A> {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        elements(self.name, value)?.iter().try_for_each(|item| self.inner.add(item))
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        self.inner.merge(part)
    }

    fn partial(&self, out: ValueSlot<'_>) {
        self.inner.partial(out);
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.inner.finish(out);
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}
