//! `$top`, `$bottom`, `$topN`, `$bottomN`: outputs of the first or last documents in a given sort order.
//!
//! The argument is evaluated to a row `[output, sort value, ...]`, so that a state does not need the documents.

use std::cmp::Ordering;
use std::sync::Arc;

use nagi_bson::{Array, Value, ValueBuf, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::positions::count;
use super::spec::parsed;
use super::{Accumulator, Parsed, held_bytes};
use crate::collation::{self, Collation};
use crate::expr::{Expr, ParseCx, parse_field_path};
use crate::window::Least;

pub(super) fn parse_top(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    parse(name, value, cx, Shape { bottom: false, single: true })
}

pub(super) fn parse_top_n(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    parse(name, value, cx, Shape { bottom: false, single: false })
}

pub(super) fn parse_bottom(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    parse(name, value, cx, Shape { bottom: true, single: true })
}

pub(super) fn parse_bottom_n(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    parse(name, value, cx, Shape { bottom: true, single: false })
}

#[derive(Clone, Copy)]
struct Shape {
    bottom: bool,
    single: bool,
}

fn parse(
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
    let descending: Box<[bool]> = descending.into();
    let sliding = Arc::<[bool]>::from(&*descending);
    let collation = cx.collation();
    Ok(parsed(Expr::Array(operands.into()), move || Ranked {
        shape,
        n,
        descending: descending.clone(),
        collation,
        rows: Vec::new(),
        bytes: 0,
    })
    .sliding(move || Least::rows((sliding.clone(), collation), n, shape.bottom, shape.single)))
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

struct Ranked {
    shape: Shape,
    n: usize,
    descending: Box<[bool]>,
    collation: Option<&'static Collation>,
    /// Sorted rows, at most n.
    rows: Vec<ValueBuf>,
    bytes: usize,
}

fn items(row: Value<'_>) -> Array<'_> {
    row.as_array().unwrap_or(Array::EMPTY)
}

impl Ranked {
    fn order(&self, a: Array<'_>, b: Array<'_>) -> Ordering {
        order_of_rows(a, b, &self.descending, self.collation)
    }
}

/// Compares two rows `[output, sort value, ...]`.
pub(crate) fn order_of_rows(
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

impl Accumulator for Ranked {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let row = items(value);
        let at = self
            .rows
            .partition_point(|other| self.order(items(other.value()), row) != Ordering::Greater);
        if !self.shape.bottom && at >= self.n {
            return Ok(());
        }
        let row = ValueBuf::new(value);
        self.bytes += held_bytes(&row);
        self.rows.insert(at, row);
        if self.rows.len() > self.n {
            let last = if self.shape.bottom { 0 } else { self.rows.len() - 1 };
            self.bytes -= held_bytes(&self.rows.remove(last));
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        items(part).iter().try_for_each(|row| self.add(row))
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.rows.iter().for_each(|row| out.push(row.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        let mut outputs = self.rows.iter().map(|row| items(row.value()).get(0));
        if self.shape.single {
            out.put(outputs.next().unwrap_or(Value::Null));
        } else {
            out.array(|out| outputs.for_each(|v| out.push(v)));
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
