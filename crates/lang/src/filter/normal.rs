//! The normal form of a filter, which the planner and the plan cache use.
//!
//! Nested conjunctions and disjunctions of the same kind are flattened, constants are folded, a list of one part is
//! replaced by the part, and `$in` with one value becomes `$eq`. The parts of a conjunction are ordered by kind and
//! path, so that most filters that differ only in order become equal. The order of several conditions on one path is
//! kept, because the last one determines the position of a positional `$`.

use std::cmp::Ordering;

use super::{BitTest, CompareOp, Filter, InList, Pred};

impl Filter {
    /// Converts the filter to its normal form; the set of matching documents stays the same.
    #[must_use]
    pub fn normalize(self) -> Filter {
        match self {
            Filter::And(parts) => normal_and(parts),
            Filter::Or(parts) => normal_or(parts),
            Filter::Nor(parts) => normal_nor(parts),
            Filter::Not(inner) => match inner.normalize() {
                Filter::AlwaysTrue => Filter::AlwaysFalse,
                Filter::AlwaysFalse => Filter::AlwaysTrue,
                Filter::Not(twice) => *twice,
                inner => Filter::Not(Box::new(inner)),
            },
            Filter::Field { path, pred } => normal_field(path, pred),
            other => other,
        }
    }
}

fn normal_and(parts: Vec<Filter>) -> Filter {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part.normalize() {
            Filter::AlwaysTrue => {}
            Filter::AlwaysFalse => return Filter::AlwaysFalse,
            Filter::And(inner) => out.extend(inner),
            other => out.push(other),
        }
    }
    match out.len() {
        0 => Filter::AlwaysTrue,
        1 => out.remove(0),
        _ => {
            out.sort_by(order);
            Filter::And(out)
        }
    }
}

fn normal_or(parts: Vec<Filter>) -> Filter {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part.normalize() {
            Filter::AlwaysFalse => {}
            Filter::AlwaysTrue => return Filter::AlwaysTrue,
            Filter::Or(inner) => out.extend(inner),
            other => out.push(other),
        }
    }
    match out.len() {
        0 => Filter::AlwaysFalse,
        1 => out.remove(0),
        _ => {
            out.sort_by(order);
            Filter::Or(out)
        }
    }
}

fn normal_nor(parts: Vec<Filter>) -> Filter {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part.normalize() {
            Filter::AlwaysFalse => {}
            Filter::AlwaysTrue => return Filter::AlwaysFalse,
            other => out.push(other),
        }
    }
    if out.is_empty() {
        return Filter::AlwaysTrue;
    }
    out.sort_by(order);
    Filter::Nor(out)
}

fn normal_field(path: crate::path::FieldPath, pred: Pred) -> Filter {
    let pred = match pred {
        Pred::In(list) if list.is_empty() => return Filter::AlwaysFalse,
        Pred::In(list) => single(list),
        Pred::ElemMatchObject(inner) => Pred::ElemMatchObject(Box::new(inner.normalize())),
        Pred::ElemMatchValue(inner) => Pred::ElemMatchValue(Box::new(inner.normalize())),
        other => other,
    };
    Filter::Field { path, pred }
}

/// `$in` with one value becomes `$eq`; with one pattern it becomes that pattern.
fn single(list: InList) -> Pred {
    match (list.values(), list.patterns()) {
        ([value], []) => {
            Pred::Compare { op: CompareOp::Eq, value: value.clone(), collation: list.collation() }
        }
        ([], [pattern]) => Pred::Regex(pattern.clone()),
        _ => Pred::In(list),
    }
}

/// Orders by kind of node, then by path.
fn order(a: &Filter, b: &Filter) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Filter::Field { path: pa, pred: a }, Filter::Field { path: pb, pred: b }) => {
            pa.as_str().cmp(pb.as_str()).then_with(|| operands(a, b))
        }
        (Filter::Not(a), Filter::Not(b)) => order(a, b),
        (Filter::And(a), Filter::And(b))
        | (Filter::Or(a), Filter::Or(b))
        | (Filter::Nor(a), Filter::Nor(b)) => lists(a, b),
        _ => Ordering::Equal,
    })
}

fn lists(a: &[Filter], b: &[Filter]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| order(a, b))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn operands(a: &Pred, b: &Pred) -> Ordering {
    match (a, b) {
        (Pred::ElemMatchObject(a), Pred::ElemMatchObject(b))
        | (Pred::ElemMatchValue(a), Pred::ElemMatchValue(b)) => order(a, b),
        _ => Ordering::Equal,
    }
}

fn rank(filter: &Filter) -> u8 {
    match filter {
        Filter::And(_) => 0,
        Filter::Or(_) => 1,
        Filter::Field { pred, .. } => match pred {
            Pred::ElemMatchObject(_) => 2,
            Pred::ElemMatchValue(_) => 3,
            Pred::Size(_) => 4,
            Pred::Compare { op, .. } => match op {
                CompareOp::Eq => 5,
                CompareOp::Lte => 6,
                CompareOp::Lt => 7,
                CompareOp::Gt => 8,
                CompareOp::Gte => 9,
            },
            Pred::Regex(_) => 10,
            Pred::Mod { .. } => 11,
            Pred::Exists => 12,
            Pred::In(_) => 13,
            Pred::Bits(bits) => match bits.test {
                BitTest::AllSet => 14,
                BitTest::AllClear => 15,
                BitTest::AnySet => 16,
                BitTest::AnyClear => 17,
            },
            Pred::Type(_) => 20,
            Pred::Geo(_) => 25,
            Pred::Near(_) => 26,
        },
        Filter::Not(_) => 18,
        Filter::Nor(_) => 19,
        Filter::Expr(_) => 21,
        Filter::AlwaysFalse => 22,
        Filter::AlwaysTrue => 23,
        Filter::Schema(_) => 24,
        Filter::Where(_) => 25,
        Filter::Text(_) => 27,
        Filter::Given(_) => 28,
    }
}
