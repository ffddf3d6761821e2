//! Accumulators: what `$group` keeps per group and field (`$sum`, `$push`, ...).
//!
//! [`AccumSpec`] is parsed once per field. One state is made by [`AccumSpec::new_state`]; `$group` keeps
//! those of all its groups side by side ([`AccumSpec::new_states`]), without a box for each.
//! A state can hand out what it has as a value (`partial`) that another state takes in (`merge`):
//! that is how groups are spilled and how shards would combine. Rows are in [`ROWS`], by name.
//!
//! Does not know about: group keys, memory limits of stages (it reports its bytes).

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
    /// Takes the argument's value for one document.
    fn add(&mut self, value: Value<'_>) -> Result<()>;

    /// Comes first, with the group's key. Only scripts need to know it.
    ///
    /// # Errors
    /// Those of the script.
    fn start(&mut self, _key: Value<'_>, _vars: &Vars<'_>, _now_ms: i64) -> Result<()> {
        Ok(())
    }

    /// As `add`, where scripts can be called.
    fn add_in(&mut self, value: Value<'_>, _vars: &Vars<'_>) -> Result<()> {
        self.add(value)
    }

    /// As `merge`, where scripts can be called.
    fn merge_in(&mut self, part: Value<'_>, _vars: &Vars<'_>) -> Result<()> {
        self.merge(part)
    }

    /// Comes before `finish`, for results that a script makes.
    fn settle(&mut self, _vars: &Vars<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes what another state of the same accumulator gave out by `partial`.
    fn merge(&mut self, part: Value<'_>) -> Result<()>;

    /// Writes the state so that `merge` can take it.
    fn partial(&self, out: ValueSlot<'_>);

    /// Writes the result.
    fn finish(&mut self, out: ValueSlot<'_>);

    /// Memory that the state holds beside its own size.
    fn bytes(&self) -> usize {
        0
    }
}

/// Memory of a value that a state keeps.
pub(crate) fn held_bytes(value: &nagi_bson::ValueBuf) -> usize {
    value.heap_bytes() + size_of::<nagi_bson::ValueBuf>()
}

/// Makes a state.
pub(crate) type NewState = Box<dyn Fn() -> Box<dyn Accumulator> + Send + Sync>;

/// Makes an empty place for the states of many groups.
pub(crate) type NewStates = Box<dyn Fn() -> Box<dyn States> + Send + Sync>;

/// A parsed argument and how states are made.
struct Parsed {
    argument: Expr,
    new_state: NewState,
    new_states: NewStates,
    /// States over a window that moves; none if it is no window function.
    new_sliding: Option<NewWindowState>,
}

/// One accumulator.
struct Row {
    name: &'static str,
    parse: fn(&'static str, Value<'_>, &mut ParseCx<'_>) -> Result<Parsed>,
}

/// Every accumulator, sorted by name.
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

/// Every accumulator's name, sorted.
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
