//! Coverings: sets of cells of the sphere that contain a whole region, for indexes.
//!
//! A cell intersects a region if the disc around the cell does. So a covering is always complete and sometimes
//! slightly too large. The cells are those of the library `s2`: six faces, each divided into four cells, thirty
//! times. The number of a cell lies in the middle of the numbers of the cells inside of it.

use s2::{
    cap::Cap,
    cell::Cell,
    cellid::CellID,
    region::{Region as S2Region, RegionCoverer},
};

use super::{
    shape::{Disc, Shape},
    sphere::{self, Point, TOUCH},
};

/// The finest level of cells.
pub const LEVEL_MAX: u8 = 30;

/// The region to cover.
#[derive(Debug, Clone)]
pub enum Zone {
    Shape(Shape),
    Disc(Disc),
    /// All points whose angle from the centre is between `inner` and `outer`, in radians.
    Annulus {
        center: Point,
        inner: f64,
        outer: f64,
    },
}

/// The limits of a covering: the coarsest and finest level and the maximal number of cells.
#[derive(Debug, Clone, Copy)]
pub struct Fineness {
    pub coarsest: u8,
    pub finest: u8,
    pub cell_count_max: usize,
}

impl Zone {
    /// The cells that cover the zone, in ascending order; no cell contains another one.
    pub fn covering(&self, fineness: Fineness) -> Vec<u64> {
        let coverer = RegionCoverer {
            min_level: fineness.coarsest.min(LEVEL_MAX),
            max_level: fineness.finest.min(LEVEL_MAX),
            level_mod: 1,
            max_cells: fineness.cell_count_max,
        };
        coverer.covering(self).0.iter().map(|cell| cell.0).collect()
    }

    /// Returns true if a part of the zone may lie within `radius` of a point.
    fn meets_disc(&self, at: &Point, radius: f64) -> bool {
        match self {
            Zone::Shape(shape) => shape.distance(at) <= radius,
            Zone::Disc(disc) => sphere::angle(at, &disc.center) <= disc.radius + radius,
            Zone::Annulus { center, inner, outer } => {
                let angle = sphere::angle(at, center);
                angle <= outer + radius && angle >= inner - radius
            }
        }
    }

    fn holds_disc(&self, at: &Point, radius: f64) -> bool {
        match self {
            Zone::Shape(shape) => shape.covers_disc(at, radius),
            Zone::Disc(disc) => sphere::angle(at, &disc.center) + radius <= disc.radius,
            Zone::Annulus { center, inner, outer } => {
                let angle = sphere::angle(at, center);
                angle + radius <= *outer && angle - radius >= *inner
            }
        }
    }
}

/// The centre of a cell and the angle to its corners, enlarged for rounding errors and for touching borders.
fn disc_around(cell: &Cell) -> (Point, f64) {
    let center = cell.center();
    let reach = cell.vertices().iter().map(|v| sphere::angle(&center, v)).fold(0.0, f64::max);
    (center, reach * 1.000_001 + 4.0 * TOUCH)
}

impl S2Region for Zone {
    fn cap_bound(&self) -> Cap {
        Cap::full()
    }

    fn contains_cell(&self, cell: &Cell) -> bool {
        let (center, radius) = disc_around(cell);
        self.holds_disc(&center, radius)
    }

    fn intersects_cell(&self, cell: &Cell) -> bool {
        let (center, radius) = disc_around(cell);
        self.meets_disc(&center, radius)
    }
}

/// The smallest cell around a point.
pub fn leaf(point: &Point) -> u64 {
    CellID::from(point).0
}

/// The smallest and the greatest number of the cells inside of this cell.
pub fn range(cell: u64) -> (u64, u64) {
    let cell = CellID(cell);
    (cell.range_min().0, cell.range_max().0)
}

/// The cells that contain this cell, the largest first.
pub fn ancestors(cell: u64) -> impl Iterator<Item = u64> {
    let cell = CellID(cell);
    (0..cell.level()).map(move |level| cell.parent(level).0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geo::sphere::point_at;

    const FINE: Fineness = Fineness { coarsest: 0, finest: 23, cell_count_max: 20 };

    fn covers(cells: &[u64], point: &Point) -> bool {
        let leaf = leaf(point);
        cells.iter().any(|cell| {
            let (low, high) = range(*cell);
            (low..=high).contains(&leaf)
        })
    }

    proptest! {
        #[test]
        fn discs_are_covered(
            lng in -180.0..180.0f64, lat in -90.0..90.0f64, radius in 0.0..2.0f64,
            to_lng in -180.0..180.0f64, to_lat in -90.0..90.0f64, share in 0.0..1.0f64,
        ) {
            let center = point_at(lng, lat);
            let cells = Zone::Disc(Disc { center, radius }).covering(FINE);
            prop_assert!(cells.is_sorted() && cells.len() <= 26);
            let to = point_at(to_lng, to_lat);
            let angle = sphere::angle(&center, &to);
            let inside = s2::edgeutil::interpolate((share * radius / angle).min(1.0), &center, &to);
            prop_assert!(covers(&cells, &inside) && covers(&cells, &center));
            let ring = Zone::Annulus { center, inner: radius / 2.0, outer: radius }.covering(FINE);
            let angle = sphere::angle(&center, &inside);
            prop_assert!(angle < radius / 2.0 || angle > radius || covers(&ring, &inside));
        }
    }

    #[test]
    fn cells_nest() {
        let cell = leaf(&point_at(13.4, 52.5));
        for above in ancestors(cell) {
            let (low, high) = range(above);
            assert!((low..=high).contains(&cell));
        }
        assert_eq!(ancestors(cell).count(), 30);
    }
}
