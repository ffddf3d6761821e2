//! Sets of values of one index field: sorted, disjoint intervals in MongoDB's order of values.
//!
//! Intervals are over values, not key bytes, because explain prints them and because union, intersection and
//! complement are easiest in a known order of values. They are converted to bytes when a scan opens.

use std::cmp::Ordering;

use nagi_bson::{Array, Doc, Value, ValueBuf, compare, text};
use nagi_lang::collation;

/// A non-empty range of values. `low <= high` in MongoDB's order.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub(crate) low: ValueBuf,
    pub(crate) low_included: bool,
    pub(crate) high: ValueBuf,
    pub(crate) high_included: bool,
}

/// Disjoint intervals, ascending. The empty set means that no document can match.
#[derive(Debug, Clone, Default)]
pub(crate) struct Intervals(pub(crate) Vec<Interval>);

impl Interval {
    /// The interval, or none if it holds no value.
    pub(crate) fn new(
        low: Value<'_>,
        low_included: bool,
        high: Value<'_>,
        high_included: bool,
    ) -> Option<Interval> {
        let filled = match compare::values(low, high) {
            Ordering::Less => true,
            Ordering::Equal => low_included && high_included,
            Ordering::Greater => false,
        };
        filled.then(|| Interval {
            low: ValueBuf::new(low),
            low_included,
            high: ValueBuf::new(high),
            high_included,
        })
    }

    pub(crate) fn point(value: Value<'_>) -> Interval {
        Interval {
            low: ValueBuf::new(value),
            low_included: true,
            high: ValueBuf::new(value),
            high_included: true,
        }
    }

    pub(crate) fn all() -> Interval {
        Interval {
            low: ValueBuf::new(Value::MinKey),
            low_included: true,
            high: ValueBuf::new(Value::MaxKey),
            high_included: true,
        }
    }

    pub(crate) fn is_point(&self) -> bool {
        self.low_included
            && self.high_included
            && compare::values(self.low.value(), self.high.value()) == Ordering::Equal
    }

    pub(crate) fn is_all(&self) -> bool {
        matches!(self.low.value(), Value::MinKey)
            && matches!(self.high.value(), Value::MaxKey)
            && self.low_included
            && self.high_included
    }

    /// Returns true if the interval may contain a string, or an array or a document that contains one.
    fn may_hold_text(&self) -> bool {
        let text = compare::class(Value::String(""));
        let behind = compare::class(Value::Binary(nagi_bson::Binary { subtype: 0, bytes: &[] }));
        compare::class(self.high.value()) >= text && compare::class(self.low.value()) < behind
    }

    fn intersect(&self, other: &Interval) -> Option<Interval> {
        let (low, low_included) = match compare::values(self.low.value(), other.low.value()) {
            Ordering::Less => (&other.low, other.low_included),
            Ordering::Greater => (&self.low, self.low_included),
            Ordering::Equal => (&self.low, self.low_included && other.low_included),
        };
        let (high, high_included) = match compare::values(self.high.value(), other.high.value()) {
            Ordering::Less => (&self.high, self.high_included),
            Ordering::Greater => (&other.high, other.high_included),
            Ordering::Equal => (&self.high, self.high_included && other.high_included),
        };
        Interval::new(low.value(), low_included, high.value(), high_included)
    }

    /// Returns true if `self` ends before `next` begins, with a value between them that neither contains.
    fn leaves_gap_to(&self, next: &Interval) -> bool {
        match compare::values(self.high.value(), next.low.value()) {
            Ordering::Less => true,
            Ordering::Equal => !self.high_included && !next.low_included,
            Ordering::Greater => false,
        }
    }

    /// The interval as explain prints it; `reversed` for a scan from high to low.
    pub(crate) fn text(&self, reversed: bool, collated: bool) -> String {
        let shown = |bound: &ValueBuf| match bound.value() {
            Value::String(key) if collated && !key.is_empty() => {
                format!("\"CollationKey(0x{})\"", collation::key_hex(key))
            }
            value => text::value_text(value),
        };
        let (first, first_in, last, last_in) = if reversed {
            (&self.high, self.high_included, &self.low, self.low_included)
        } else {
            (&self.low, self.low_included, &self.high, self.high_included)
        };
        format!(
            "{}{}, {}{}",
            if first_in { '[' } else { '(' },
            shown(first),
            shown(last),
            if last_in { ']' } else { ')' },
        )
    }
}

impl Intervals {
    /// Returns true if the set may contain a string, or an array or a document that contains one.
    pub(crate) fn may_hold_text(&self) -> bool {
        self.0.iter().any(Interval::may_hold_text)
    }

    /// Returns true if the set may contain a document.
    pub(crate) fn may_hold_documents(&self) -> bool {
        let (first, behind) = (Value::Doc(Doc::EMPTY), Value::Array(Array::EMPTY));
        let documents = Interval::new(first, true, behind, false);
        let documents = documents.expect("documents come before arrays");
        self.0.iter().any(|interval| interval.intersect(&documents).is_some())
    }

    pub(crate) fn all() -> Intervals {
        Intervals(vec![Interval::all()])
    }

    pub(crate) fn point(value: Value<'_>) -> Intervals {
        Intervals(vec![Interval::point(value)])
    }

    pub(crate) fn one(interval: Option<Interval>) -> Intervals {
        Intervals(interval.into_iter().collect())
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.len() == 1 && self.0[0].is_all()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if every interval is a single value.
    pub(crate) fn is_points(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(Interval::is_point)
    }

    pub(crate) fn is_one_point(&self) -> bool {
        self.0.len() == 1 && self.0[0].is_point()
    }

    /// Returns true if the set contains `value`.
    pub(crate) fn contains(&self, value: Value<'_>) -> bool {
        let point = Interval::point(value);
        self.0.iter().any(|interval| interval.intersect(&point).is_some())
    }

    /// Sorts and merges any list of intervals into a set.
    pub(crate) fn from_any(mut list: Vec<Interval>) -> Intervals {
        list.sort_by(|a, b| {
            compare::values(a.low.value(), b.low.value())
                .then_with(|| b.low_included.cmp(&a.low_included))
        });
        let mut out: Vec<Interval> = Vec::with_capacity(list.len());
        for interval in list {
            match out.last_mut() {
                Some(last) if !last.leaves_gap_to(&interval) => extend(last, interval),
                _ => out.push(interval),
            }
        }
        Intervals(out)
    }

    pub(crate) fn intersect(&self, other: &Intervals) -> Intervals {
        let mut out = Vec::new();
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            out.extend(a.intersect(b));
            match compare::values(a.high.value(), b.high.value())
                .then(a.high_included.cmp(&b.high_included))
            {
                Ordering::Greater => j += 1,
                _ => i += 1,
            }
        }
        Intervals(out)
    }

    /// The intersection of several sets; all values if there are none. It intersects pairs, because a chain of `n`
    /// complements of a point would copy `n * n` intervals.
    pub(crate) fn all_of(mut sets: Vec<Intervals>) -> Intervals {
        while sets.len() > 1 {
            let last = (sets.len() % 2 == 1).then(|| sets.pop()).flatten();
            sets =
                sets.chunks_exact(2).map(|pair| pair[0].intersect(&pair[1])).chain(last).collect();
        }
        sets.pop().unwrap_or_else(Intervals::all)
    }

    /// The union of several sets.
    pub(crate) fn any_of(sets: impl Iterator<Item = Intervals>) -> Intervals {
        Intervals::from_any(sets.flat_map(|set| set.0).collect())
    }

    /// The set of all other values.
    pub(crate) fn complement(&self) -> Intervals {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut low = ValueBuf::new(Value::MinKey);
        let mut low_included = true;
        for interval in &self.0 {
            out.extend(Interval::new(
                low.value(),
                low_included,
                interval.low.value(),
                !interval.low_included,
            ));
            low = interval.high.clone();
            low_included = !interval.high_included;
        }
        out.extend(Interval::new(low.value(), low_included, Value::MaxKey, true));
        Intervals(out)
    }
}

fn extend(last: &mut Interval, next: Interval) {
    match compare::values(last.high.value(), next.high.value()) {
        Ordering::Less => {
            last.high = next.high;
            last.high_included = next.high_included;
        }
        Ordering::Equal => last.high_included |= next.high_included,
        Ordering::Greater => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: i32, low_in: bool, high: i32, high_in: bool) -> Intervals {
        Intervals::one(Interval::new(Value::Int32(low), low_in, Value::Int32(high), high_in))
    }

    fn texts(set: &Intervals) -> Vec<String> {
        set.0.iter().map(|i| i.text(false, false)).collect()
    }

    fn any_of(a: Intervals, b: Intervals) -> Intervals {
        Intervals::any_of([a, b].into_iter())
    }

    #[test]
    fn any_of_merges_what_touches() {
        let set = any_of(range(1, true, 3, false), range(3, true, 5, true));
        assert_eq!(texts(&set), ["[1, 5]"]);
        let set = any_of(range(1, true, 3, false), range(3, false, 5, true));
        assert_eq!(texts(&set), ["[1, 3)", "(3, 5]"]);
    }

    #[test]
    fn complement_is_its_own_inverse() {
        let set = any_of(range(1, true, 3, false), Intervals::point(Value::String("x")));
        assert_eq!(texts(&set.complement()), ["[MinKey, 1)", "[3, \"x\")", "(\"x\", MaxKey]"]);
        assert_eq!(texts(&set.complement().complement()), texts(&set));
        assert!(Intervals::all().complement().is_empty());
        assert!(Intervals::default().complement().is_all());
    }

    #[test]
    fn intersection_keeps_the_stricter_ends() {
        let set = range(1, true, 5, true).intersect(&range(3, false, 9, true));
        assert_eq!(texts(&set), ["(3, 5]"]);
        assert!(range(1, true, 2, false).intersect(&range(2, true, 3, true)).is_empty());
    }
}
