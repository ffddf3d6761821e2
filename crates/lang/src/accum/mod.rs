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
mod extremes;
mod js_reduce;
mod merge_objects;
mod number_sum;
mod percentile;
mod positions;
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

    /// Merges the state that another state of the same accumulator wrote with `partial`.
    fn merge(&mut self, part: Value<'_>) -> Result<()>;

    /// Writes the state in the form that `merge` reads.
    fn partial(&self, out: ValueSlot<'_>);

    /// Writes the result.
    fn finish(&mut self, out: ValueSlot<'_>);

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
    Row { name: "$bottom", parse: ranked::parse_bottom },
    Row { name: "$bottomN", parse: ranked::parse_bottom_n },
    Row { name: "$concatArrays", parse: concat::parse_concat },
    Row { name: "$count", parse: sums::parse_count },
    Row { name: "$first", parse: positions::parse_first },
    Row { name: "$firstN", parse: positions::parse_first_n },
    Row { name: "$last", parse: positions::parse_last },
    Row { name: "$lastN", parse: positions::parse_last_n },
    Row { name: "$max", parse: extremes::parse_max },
    Row { name: "$maxN", parse: extremes::parse_max_n },
    Row { name: "$median", parse: percentile::parse },
    Row { name: "$mergeObjects", parse: merge_objects::parse },
    Row { name: "$min", parse: extremes::parse_min },
    Row { name: "$minN", parse: extremes::parse_min_n },
    Row { name: "$percentile", parse: percentile::parse },
    Row { name: "$push", parse: collect::parse_push },
    Row { name: "$setUnion", parse: concat::parse_union },
    Row { name: "$stdDevPop", parse: spread::parse_pop },
    Row { name: "$stdDevSamp", parse: spread::parse_samp },
    Row { name: "$sum", parse: sums::parse_sum },
    Row { name: "$top", parse: ranked::parse_top },
    Row { name: "$topN", parse: ranked::parse_top_n },
];

/// The names of all accumulators, sorted.
pub fn accumulator_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

pub(crate) use averages::Average;
pub(crate) use collect::SetItem;
pub(crate) use concat::elements;
pub(crate) use extremes::Extreme;
pub(crate) use merge_objects::MergeObjects;
pub(crate) use percentile::{Shares, countable, position};
pub(crate) use ranked::order_of_rows;
pub(crate) use spread::Spread;
pub(crate) use sums::Sum;
