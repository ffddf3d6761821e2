//! Accumulators: the states that `$group` keeps for each group and field (`$sum`, `$push`, ...).
//!
//! [`AccumSpec`] is parsed once per field. [`AccumSpec::new_state`] creates a single state. `$group` keeps the states
//! of all its groups side by side ([`AccumSpec::new_states`]), without an allocation for each.
//!
//! ```text
//!   group 1:   add add add --> partial --> (spilled) --+
//!   group 1:   add add     --> partial --> (spilled) --+--> merge --> settle --> finish
//! ```
//!
//! A state can be written as a value (`partial`) that another state of the same accumulator merges (`merge`).
//! `$group` spills in this form, and shards would exchange it. The accumulators are the rows of [`ROWS`], by name.
//!
//! This module does not know group keys or the memory limits of stages; a state only reports its size.

mod averages;
mod collect;
mod concat;
mod construct_stats;
mod digest;
mod js_reduce;
mod merge_objects;
mod number_sum;
mod one;
mod percentile;
mod positions;
mod queue;
mod ranked;
mod script;
mod spec;
mod spread;
mod states;
mod sums;
mod whole;

pub use number_sum::NumberSum;
pub use spec::{AccumSpec, parse_group_key};
pub use states::{Numbered, States};

use std::cmp::Ordering::{Greater, Less};

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use crate::expr::{Expr, ParseCx, Vars};
use crate::window::NewWindowState;

/// The state of one accumulator in one group.
pub trait Accumulator: Send {
    /// Adds the argument's value for one document.
    fn add(&mut self, value: Value<'_>) -> Result<()>;

    /// Called before all other methods, with the key of the group. Only scripts need it.
    ///
    /// # Errors
    /// The errors of the script.
    fn start(&mut self, _key: Value<'_>, _vars: &Vars<'_>, _now_ms: i64) -> Result<()> {
        Ok(())
    }

    /// Like `add` for one double after another.
    ///
    /// # Errors
    /// The errors of `add_in`.
    fn add_doubles(&mut self, values: &[f64], vars: &Vars<'_>) -> Result<()> {
        values.iter().try_for_each(|value| self.add_in(Value::Double(*value), vars))
    }

    /// Like `add`, for accumulators that call scripts.
    fn add_in(&mut self, value: Value<'_>, _vars: &Vars<'_>) -> Result<()> {
        self.add(value)
    }

    /// Like `merge`, for accumulators that call scripts.
    fn merge_in(&mut self, part: Value<'_>, _vars: &Vars<'_>) -> Result<()> {
        self.merge(part)
    }

    /// Called before `finish`, for results that a script computes.
    fn settle(&mut self, _vars: &Vars<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes what another state of the same accumulator gave out by `partial`: an array of values to add, unless
    /// the accumulator has another form.
    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|value| self.add(value)),
            _ => Ok(()),
        }
    }

    /// Writes the state in the form that `merge` reads.
    fn partial(&self, out: ValueSlot<'_>);

    /// Writes the result, which may be the same as `partial`.
    fn finish(&mut self, out: ValueSlot<'_>) {
        self.partial(out);
    }

    /// The memory in bytes that the state uses beside its own size.
    fn bytes(&self) -> usize {
        0
    }
}

/// The memory in bytes of a value that a state keeps.
pub(crate) fn held_bytes(value: &nagi_bson::ValueBuf) -> usize {
    value.heap_bytes() + size_of::<nagi_bson::ValueBuf>()
}

/// Creates a state.
pub(crate) type NewState = Box<dyn Fn() -> Box<dyn Accumulator> + Send + Sync>;

/// Creates an empty container for the states of many groups.
pub(crate) type NewStates = Box<dyn Fn() -> Box<dyn States> + Send + Sync>;

/// A parsed argument and the constructors of states.
struct Parsed {
    argument: Expr,
    new_state: NewState,
    new_states: NewStates,
    /// Creates states for a moving window; none if the accumulator is not a window function.
    new_sliding: Option<NewWindowState>,
}

/// An accumulator and its parser.
struct Row {
    name: &'static str,
    parse: fn(&'static str, Value<'_>, &mut ParseCx<'_>) -> Result<Parsed>,
}

/// All accumulators, sorted by name.
static ROWS: &[Row] = &[
    Row { name: "$_internalConstructStats", parse: construct_stats::parse },
    Row { name: "$_internalJsReduce", parse: js_reduce::parse },
    Row { name: "$accumulator", parse: script::parse },
    Row { name: "$addToSet", parse: collect::parse_add_to_set },
    Row { name: "$avg", parse: averages::parse },
    Row {
        name: "$bottom",
        parse: |name, value, cx| ranked::parse(name, value, cx, ranked::BOTTOM),
    },
    Row {
        name: "$bottomN",
        parse: |name, value, cx| ranked::parse(name, value, cx, ranked::BOTTOM_N),
    },
    Row { name: "$concatArrays", parse: concat::parse_concat },
    Row { name: "$count", parse: sums::parse_count },
    Row { name: "$first", parse: one::parse_first },
    Row { name: "$firstN", parse: |name, value, cx| positions::parse(name, value, cx, false) },
    Row { name: "$last", parse: one::parse_last },
    Row { name: "$lastN", parse: |name, value, cx| positions::parse(name, value, cx, true) },
    Row { name: "$max", parse: |name, value, cx| one::parse_best(name, value, cx, Greater) },
    Row { name: "$maxN", parse: |name, value, cx| ranked::parse_values(name, value, cx, Greater) },
    Row { name: "$median", parse: percentile::parse },
    Row { name: "$mergeObjects", parse: merge_objects::parse },
    Row { name: "$min", parse: |name, value, cx| one::parse_best(name, value, cx, Less) },
    Row { name: "$minN", parse: |name, value, cx| ranked::parse_values(name, value, cx, Less) },
    Row { name: "$percentile", parse: percentile::parse },
    Row { name: "$push", parse: collect::parse_push },
    Row { name: "$setUnion", parse: concat::parse_union },
    Row { name: "$stdDevPop", parse: |name, value, cx| spread::parse(name, value, cx, false) },
    Row { name: "$stdDevSamp", parse: |name, value, cx| spread::parse(name, value, cx, true) },
    Row { name: "$sum", parse: sums::parse_sum },
    Row { name: "$top", parse: |name, value, cx| ranked::parse(name, value, cx, ranked::TOP) },
    Row { name: "$topN", parse: |name, value, cx| ranked::parse(name, value, cx, ranked::TOP_N) },
];

/// The names of all accumulators, sorted.
pub fn accumulator_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

pub(crate) use averages::Average;
pub(crate) use collect::SetItem;
pub(crate) use concat::elements;
pub(crate) use merge_objects::MergeObjects;
pub(crate) use one::{Best, One};
pub(crate) use percentile::{Shares, countable, position};
pub(crate) use positions::count_of;
pub(crate) use queue::Queue;
pub(crate) use ranked::Rank;
pub(crate) use spread::Spread;
pub(crate) use sums::Sum;
