//! The first or last n by an order: `$minN`, `$maxN` of values; `$top`, `$bottom`, `$topN`, `$bottomN` of documents.
//!
//! The argument of those of documents is evaluated to `[output, sort value, ...]`, so that a state needs no document.

use std::cmp::Ordering;
use std::sync::Arc;

use nagi_bson::{Array, Value, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::positions::{count, parse_n};
use super::spec::parsed;
use super::{Accumulator, Best, Parsed, Queue};
use crate::collation::{self, Collation};
use crate::expr::{Expr, ParseCx, parse_field_path};
use crate::window::Least;

/// `Less` is for `$minN`, `Greater` for `$maxN`.
pub(super) fn parse_values(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    wanted: Ordering,
) -> Result<Parsed> {
    let (input, n) = parse_n(name, value, cx)?;
    let order = Order::Values(Best::new(wanted, cx.collation()));
    Ok(parsed_ranked(input, Rank { order, n, last: false, single: false }))
}

/// Which rows are the result, and whether it is one output or an array of them.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    bottom: bool,
    single: bool,
}

pub(super) const TOP: Shape = Shape { bottom: false, single: true };
pub(super) const TOP_N: Shape = Shape { bottom: false, single: false };
pub(super) const BOTTOM: Shape = Shape { bottom: true, single: true };
pub(super) const BOTTOM_N: Shape = Shape { bottom: true, single: false };

pub(super) fn parse(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    shape: Shape,
) -> Result<Parsed> {
    let Value::Doc(doc) = value else {
        bail!(Code::Location(5788001), "specification must be an object; found {name}: {value}");
    };
    let (mut output, mut sort, mut n) = (None, None, None);
    for element in doc {
        match element.name() {
            "output" => output = Some(Expr::parse(element.value(), cx)?),
            "sortBy" => sort = Some(element.value()),
            "n" if !shape.single => n = Some(Expr::parse(element.value(), cx)?),
            other => bail!(Code::Location(5788002), "Unknown argument to {name} '{other}'"),
        }
    }
    let n = match (n, shape.single) {
        (Some(n), _) => count(&n)?,
        (None, true) => 1,
        (None, false) => bail!(Code::Location(5788003), "Missing value for 'n'"),
    };
    let Some(output) = output else {
        bail!(Code::Location(5788004), "Missing value for 'output'");
    };
    let Some(sort) = sort else {
        bail!(Code::Location(5788005), "Missing value for 'sortBy'");
    };
    let Value::Doc(sort) = sort else {
        bail!(Code::Location(5788604), "'sortBy' must be an object");
    };
    let mut operands = vec![output];
    let mut descending = Vec::new();
    for element in sort {
        let path = parse_field_path(element.name())?;
        operands.push(Expr::Path(path));
        descending.push(direction(element.value())?);
    }
    let order = Order::Rows(descending.into(), cx.collation());
    let rank = Rank { order, n, last: shape.bottom, single: shape.single };
    Ok(parsed_ranked(Expr::Array(operands.into()), rank))
}

/// The states of `$group` and of windows.
fn parsed_ranked(argument: Expr, rank: Rank) -> Parsed {
    let rank = Arc::new(rank);
    let sliding = Arc::clone(&rank);
    parsed(argument, move || Ranked { rank: Arc::clone(&rank), values: Queue::default() })
        .sliding(move || Least::new(Arc::clone(&sliding)))
}

fn direction(value: Value<'_>) -> Result<bool> {
    match number::as_i64_exact(value) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ if value.is_number() => bail!(
            Code::Location(15975),
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
        ),
        _ => bail!(Code::Location(15974), "Illegal key in $sort specification: {value}"),
    }
}

/// Which values are the result: the first n by an order, or the last n.
pub(crate) struct Rank {
    order: Order,
    n: usize,
    last: bool,
    /// The result is a value, not an array: n is 1.
    single: bool,
}

enum Order {
    /// By value, the best ones first; null and missing do not count.
    Values(Best),
    /// Rows `[output, sort value, ...]` by the directions of a sort.
    Rows(Box<[bool]>, Option<&'static Collation>),
}

impl Rank {
    /// How many of the first values or of the last ones.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Whether the last values are the result.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    pub(crate) fn compare(&self, a: Value<'_>, b: Value<'_>) -> Ordering {
        match &self.order {
            Order::Values(best) => best.compare(a, b),
            Order::Rows(descending, own) => order_of_rows(items(a), items(b), descending, *own),
        }
    }

    /// Writes the result, given the values it is made of.
    pub(crate) fn write<'v>(&self, values: impl Iterator<Item = Value<'v>>, out: ValueSlot<'_>) {
        let mut outputs = values.map(|value| match &self.order {
            Order::Values(_) => value,
            Order::Rows(..) => items(value).get(0),
        });
        if self.single {
            out.put(outputs.next().unwrap_or(Value::Null));
        } else {
            out.array(|out| outputs.for_each(|output| out.push(output)));
        }
    }
}

fn items(row: Value<'_>) -> Array<'_> {
    row.as_array().unwrap_or(Array::EMPTY)
}

/// Order of two rows `[output, sort value, ...]`.
fn order_of_rows(
    a: Array<'_>,
    b: Array<'_>,
    descending: &[bool],
    own: Option<&Collation>,
) -> Ordering {
    let pairs = a.iter().skip(1).zip(b.iter().skip(1)).zip(descending);
    for ((a, b), descending) in pairs {
        let value = |v| sort_value(v, *descending, own);
        let order = collation::values(value(a), value(b), own);
        if order.is_ne() {
            return if *descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

/// The value by which a value sorts: for an array, its smallest or largest element.
fn sort_value<'a>(value: Value<'a>, descending: bool, own: Option<&Collation>) -> Value<'a> {
    let Value::Array(items) = value else {
        return value;
    };
    let pick = |a: &Value<'_>, b: &Value<'_>| collation::values(*a, *b, own);
    let found = if descending { items.iter().max_by(pick) } else { items.iter().min_by(pick) };
    found.unwrap_or(Value::Undefined)
}

/// The values that are the result so far, in order; of equal ones the oldest comes first.
struct Ranked {
    rank: Arc<Rank>,
    values: Queue,
}

impl Accumulator for Ranked {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let rank = &*self.rank;
        let at = self.values.place(|other| rank.compare(other, value).is_le());
        if self.values.len() < rank.n {
            self.values.insert(at, value);
        } else if rank.last && at > 0 {
            self.values.shift();
            self.values.insert(at - 1, value);
        } else if !rank.last && at < rank.n {
            self.values.pop();
            self.values.insert(at, value);
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        self.values.write(out);
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.rank.write(self.values.iter(), out);
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}
