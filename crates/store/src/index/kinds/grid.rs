//! The grid of a 2d index: maps pairs of numbers to one number, and rectangles to ranges of numbers.
//!
//! Each axis from `min` to `max` is divided into 2^bits columns. The bits of column and row are interleaved, the
//! column's first, so that a grid square whose side is a power of two is one range.

use std::sync::Arc;

use nagi_bson::{Doc, Value, number};
use nagi_error::{Code, Result, bail};

use super::geo::{self, Geometry};
use crate::index::{
    KeyPart,
    kind::{Content, KindFacts, NamedBy, Parsed},
    spec::Shape,
};

pub(super) static TWO_D: KindFacts = KindFacts {
    name: "2d",
    named_by: NamedBy::Value,
    content: Content::Cells,
    options: &[("bits", Shape::Number), ("max", Shape::Number), ("min", Shape::Number)],
    parse,
    keys: geo::keys,
    collates: false,
    ..KindFacts::ROW
};

/// Checks that the only geometry is the first field, and parses the grid.
fn parse(spec: Doc<'_>, key: &[KeyPart]) -> Result<Parsed> {
    if key.iter().filter(|part| part.is_geometry()).count() > 1 {
        bail!(Code::Location(16800), "can't have 2 geo fields");
    }
    if !key[0].is_geometry() {
        bail!(Code::Location(16801), "2d has to be first in index");
    }
    Ok(Some(Arc::new(Geometry::Plane(Grid::parse(spec)?))))
}

/// Limit of the ranges for a rectangle.
const RANGE_COUNT_MAX: usize = 64;

/// Number of bits, least and greatest coordinate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    pub bits: u32,
    pub min: f64,
    pub max: f64,
}

impl Grid {
    /// Parses the options `bits`, `min` and `max`.
    ///
    /// # Errors
    /// 72 for bits outside of 1 to 32 and for an empty region.
    fn parse(spec: Doc<'_>) -> Result<Grid> {
        let given = |name: &str, default: f64| match spec.get(name) {
            Value::Missing => default,
            value => number::as_f64(value).unwrap_or(default),
        };
        let (bits, min, max) = (given("bits", 26.0), given("min", -180.0), given("max", 180.0));
        if !(1.0..33.0).contains(&bits) {
            bail!(
                Code::INVALID_OPTIONS,
                "bits for hash must be > 0 and <= 32, but {} bits were specified",
                bits.trunc()
            );
        }
        if !(min < max && min.is_finite() && max.is_finite() && (max - min).is_finite()) {
            bail!(
                Code::INVALID_OPTIONS,
                "region for hash must be valid and have positive area, but [{min}, {max}] was \
                 specified"
            );
        }
        Ok(Grid { bits: bits as u32, min, max })
    }

    /// The column (or row) of a coordinate; coordinates outside are moved to the edge.
    fn column(&self, at: f64) -> u32 {
        let columns = (1u64 << self.bits) as f64;
        let column = (at - self.min) / (self.max - self.min) * columns;
        // Casts saturate: below is 0, above is the greatest.
        (column as u64).min((1u64 << self.bits) - 1) as u32
    }

    /// The key of a pair; none if it lies outside the region.
    pub fn key(&self, x: f64, y: f64) -> Option<i64> {
        let inside = |at: f64| (self.min..=self.max).contains(&at);
        (inside(x) && inside(y))
            .then(|| self.number(interleave(self.column(x)) << 1 | interleave(self.column(y))))
    }

    /// Converts a grid number to the order of signed integers.
    fn number(&self, hash: u64) -> i64 {
        if self.bits == 32 { (hash ^ (1 << 63)) as i64 } else { hash as i64 }
    }

    /// Disjoint ranges of keys, ascending, that contain every pair of a rectangle.
    pub fn ranges(&self, low: (f64, f64), high: (f64, f64)) -> Vec<(i64, i64)> {
        let outside = |l: f64, h: f64| !(l <= self.max && h >= self.min);
        if outside(low.0, high.0) || outside(low.1, high.1) {
            return Vec::new();
        }
        let wanted = Rect {
            x: (self.column(low.0), self.column(high.0)),
            y: (self.column(low.1), self.column(high.1)),
        };
        let mut whole: Vec<(u64, u32)> = Vec::new();
        let mut part: Vec<(u64, u32)> = vec![(0, 0)];
        for level in 0..=self.bits {
            let mut cut = Vec::new();
            for (hash, _) in part.drain(..) {
                match wanted.against(hash, self.bits - level) {
                    Overlap::None => {}
                    Overlap::Whole => whole.push((hash, level)),
                    Overlap::Part => cut.push((hash, level)),
                }
            }
            if level == self.bits || whole.len() + 4 * cut.len() > RANGE_COUNT_MAX {
                whole.append(&mut cut);
            }
            part = cut
                .into_iter()
                .flat_map(|(hash, level)| (0..4).map(move |child| (hash << 2 | child, level + 1)))
                .collect();
        }
        self.merged(&mut whole)
    }

    fn merged(&self, squares: &mut [(u64, u32)]) -> Vec<(i64, i64)> {
        let range = |(hash, level): (u64, u32)| {
            let below = 2 * (self.bits - level);
            let (first, span) = match below {
                64 => (0, u64::MAX),
                below => (hash << below, (1u64 << below) - 1),
            };
            (self.number(first), self.number(first + span))
        };
        let mut all: Vec<(i64, i64)> = squares.iter().map(|square| range(*square)).collect();
        all.sort_unstable();
        let mut out: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match out.last_mut() {
                Some(last) if last.1 >= low.saturating_sub(1) => last.1 = last.1.max(high),
                _ => out.push((low, high)),
            }
        }
        out
    }
}

/// A rectangle of columns and rows, both ends inclusive.
struct Rect {
    x: (u32, u32),
    y: (u32, u32),
}

enum Overlap {
    None,
    Part,
    Whole,
}

impl Rect {
    /// The relation of the square with this hash, 2^`below` wide, to the rectangle.
    fn against(&self, hash: u64, below: u32) -> Overlap {
        let first = |half: u64| u64::from(gather(half)) << below;
        let span = (1u64 << below) - 1;
        let (x, y) = (first(hash >> 1), first(hash));
        let apart =
            |at: u64, (low, high): (u32, u32)| at > u64::from(high) || at + span < u64::from(low);
        let within =
            |at: u64, (low, high): (u32, u32)| at >= u64::from(low) && at + span <= u64::from(high);
        if apart(x, self.x) || apart(y, self.y) {
            Overlap::None
        } else if within(x, self.x) && within(y, self.y) {
            Overlap::Whole
        } else {
            Overlap::Part
        }
    }
}

/// Spreads 32 bits over the even positions of 64.
fn interleave(bits: u32) -> u64 {
    let mut out = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        out = (out | out << shift) & mask;
    }
    out
}

/// Collects the even positions of 64 bits.
fn gather(bits: u64) -> u32 {
    let mut out = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        out = (out | out >> shift) & mask;
    }
    out as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_spread_and_gathered() {
        for n in [0, 1, 2, 0xDEAD_BEEF, u32::MAX] {
            assert_eq!(gather(interleave(n)), n);
            assert_eq!(gather(interleave(n) << 1), 0);
        }
    }

    #[test]
    fn rectangles_hold_their_pairs_and_little_else() {
        for bits in [1, 2, 10, 26, 32] {
            let grid = Grid { bits, min: -180.0, max: 180.0 };
            let mut inside = 0;
            for i in 0..2000u32 {
                let at = |k: u32| f64::from(i.wrapping_mul(k) % 3600) / 10.0 - 180.0;
                let (x, y) = (at(2_654_435_761), at(40_503));
                let (low, high) = ((-20.0, -10.0), (35.0, 80.0));
                let ranges = grid.ranges(low, high);
                assert!(ranges.len() <= RANGE_COUNT_MAX + 4);
                assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let key = grid.key(x, y).unwrap();
                let found = ranges.iter().any(|(l, h)| (*l..=*h).contains(&key));
                let wanted = x >= low.0 && x <= high.0 && y >= low.1 && y <= high.1;
                assert!(found || !wanted, "{bits} {x} {y}");
                inside += usize::from(found);
            }
            assert!(bits < 10 || inside < 600, "{bits}: {inside}");
        }
    }

    #[test]
    fn the_ends_are_inside() {
        let grid = Grid { bits: 32, min: -10.0, max: 10.0 };
        assert_eq!(grid.key(-10.0, -10.0), Some(i64::MIN));
        assert_eq!(grid.key(10.0, 10.0), Some(i64::MAX));
        assert_eq!(grid.key(10.1, 0.0), None);
        assert_eq!(grid.ranges((-99.0, -99.0), (99.0, 99.0)), [(i64::MIN, i64::MAX)]);
        assert!(grid.ranges((11.0, 0.0), (12.0, 1.0)).is_empty());
    }
}
