//! Regions of the plane for legacy pairs: boxes, circles and polygons.

/// A region of the plane, including its border.
#[derive(Debug, Clone)]
pub enum Flat {
    Box {
        low: (f64, f64),
        high: (f64, f64),
    },
    Circle {
        center: (f64, f64),
        radius: f64,
    },
    /// A polygon with at least three corners; the last corner is connected to the first.
    Polygon(Vec<(f64, f64)>),
}

/// The distance between two points.
pub(super) fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

impl Flat {
    pub fn contains(&self, p: (f64, f64)) -> bool {
        match self {
            Flat::Box { low, high } => {
                (low.0..=high.0).contains(&p.0) && (low.1..=high.1).contains(&p.1)
            }
            Flat::Circle { center, radius } => circle_contains(*center, *radius, p),
            Flat::Polygon(corners) => polygon_contains(corners, p),
        }
    }

    /// The bounding box of the region: the smallest and the greatest coordinates.
    pub fn bounds(&self) -> ((f64, f64), (f64, f64)) {
        match self {
            Flat::Box { low, high } => (*low, *high),
            Flat::Circle { center: (x, y), radius } => {
                ((x - radius, y - radius), (x + radius, y + radius))
            }
            Flat::Polygon(corners) => corners.iter().fold(
                ((f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::NEG_INFINITY)),
                |(low, high), c| {
                    ((low.0.min(c.0), low.1.min(c.1)), (high.0.max(c.0), high.1.max(c.1)))
                },
            ),
        }
    }
}

/// Returns true if a circle contains a point. If the point has a coordinate of the centre, the sum decides and not
/// the difference: (5.1, 52.1) is on the circle of radius 0.1 around (5.1, 52), although the computed difference is
/// greater than 0.1.
fn circle_contains(center: (f64, f64), radius: f64, p: (f64, f64)) -> bool {
    let within = |a: f64, b: f64| a.max(b) <= a.min(b) + radius;
    if p.0 == center.0 {
        within(p.1, center.1)
    } else if p.1 == center.1 {
        within(p.0, center.0)
    } else {
        distance(center, p) <= radius
    }
}

/// Counts the edges that a ray to the right crosses. A point on an edge is inside.
fn polygon_contains(corners: &[(f64, f64)], (x, y): (f64, f64)) -> bool {
    let mut inside = false;
    let mut before = corners[corners.len() - 1];
    for &at in corners {
        let (a, b) = (before, at);
        before = at;
        let side = (b.0 - a.0) * (y - a.1) - (b.1 - a.1) * (x - a.0);
        let within =
            x >= a.0.min(b.0) && x <= a.0.max(b.0) && y >= a.1.min(b.1) && y <= a.1.max(b.1);
        if side == 0.0 && within {
            return true;
        }
        if (a.1 > y) != (b.1 > y) && (side > 0.0) == (b.1 > a.1) {
            inside = !inside;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polygons_hold_their_borders() {
        let p = Flat::Polygon(vec![(0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0)]);
        for at in
            [(0.0, 0.0), (3.0, 3.0), (1.5, 0.0), (0.0, 1.0), (3.0, 1.0), (1.0, 3.0), (2.0, 2.0)]
        {
            assert!(p.contains(at), "{at:?}");
        }
        for at in [(-0.1, 0.0), (3.1, 3.0), (1.0, 3.1), (-1.0, 3.0), (4.0, 0.0)] {
            assert!(!p.contains(at), "{at:?}");
        }
        let bow = Flat::Polygon(vec![(0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0)]);
        assert!(bow.contains((0.2, 1.0)) && !bow.contains((1.0, 1.8)));
        assert_eq!(bow.bounds(), ((0.0, 0.0), (2.0, 2.0)));
    }

    #[test]
    fn circles_and_boxes() {
        let c = Flat::Circle { center: (0.0, 0.0), radius: 5.0 };
        assert!(c.contains((3.0, 4.0)) && !c.contains((3.1, 4.0)));
        let near = Flat::Circle { center: (5.1, 52.0), radius: 0.1 };
        assert!(near.contains((5.1, 52.1)) && near.contains((5.1, 51.9)));
        assert!(!near.contains((5.1, 52.100001)) && !near.contains((5.21, 52.0)));
        let b = Flat::Box { low: (0.0, 0.0), high: (2.0, 2.0) };
        assert!(b.contains((2.0, 0.0)) && !b.contains((2.0, -0.1)));
    }
}
