//! Shapes on the sphere and their relations, and the geometries that documents store.

use super::{
    chain::{Block, Chain},
    polygon::Polygon,
    sphere::{self, Crossing, Point, TOUCH},
};

/// A geometry on the sphere.
#[derive(Debug, Clone)]
pub enum Shape {
    Point(Point),
    Line(Chain),
    Polygon(Polygon),
    /// The Multi types and GeometryCollection.
    Many(Vec<Shape>),
}

/// A stored geometry.
#[derive(Debug, Clone)]
pub enum Stored {
    /// A point, from a legacy pair or GeoJSON; regions of the plane accept both.
    Point {
        x: f64,
        y: f64,
        legacy: bool,
    },
    Shape(Shape),
    /// A polygon whose winding order determines its interior, which may be larger than a hemisphere.
    StrictPolygon(Polygon),
}

impl Stored {
    /// The geometry on the sphere. None for a pair that is not a longitude and latitude, and for a polygon with
    /// strict winding, which no test matches.
    pub fn on_sphere(&self) -> Option<Shape> {
        match self {
            Stored::Point { x, y, .. } => {
                sphere::is_lng_lat(*x, *y).then(|| Shape::Point(sphere::point_at(*x, *y)))
            }
            Stored::Shape(shape) => Some(shape.clone()),
            Stored::StrictPolygon(_) => None,
        }
    }

    /// The point in the plane, if the geometry is a point.
    pub fn in_plane(&self) -> Option<(f64, f64)> {
        match self {
            Stored::Point { x, y, .. } => Some((*x, *y)),
            _ => None,
        }
    }
}

impl Shape {
    /// Calls `visit` with each simple shape until it returns true.
    fn any(&self, visit: &mut dyn FnMut(&Shape) -> bool) -> bool {
        match self {
            Shape::Many(parts) => parts.iter().any(|part| part.any(visit)),
            simple => visit(simple),
        }
    }

    /// Returns true if this shape contains every point of `inner`. Only polygons can contain a shape.
    pub fn contains(&self, inner: &Shape) -> bool {
        // Each simple part must be contained by a single polygon.
        !inner.any(&mut |part| !self.any(&mut |polygon| contains_simple(polygon, part)))
    }

    /// Returns true if the shapes have a point in common.
    pub fn intersects(&self, other: &Shape) -> bool {
        self.any(&mut |a| other.any(&mut |b| intersects_simple(a, b)))
    }

    /// The angle from a point to the nearest point of the shape, in radians; 0 inside of a polygon.
    pub fn distance(&self, from: &Point) -> f64 {
        let mut least = f64::INFINITY;
        self.any(&mut |part| {
            let distance = match part {
                Shape::Point(p) => sphere::angle(from, p),
                Shape::Line(line) => line.distance(from),
                Shape::Polygon(polygon) if polygon.contains_point(from) => 0.0,
                Shape::Polygon(polygon) => polygon.border_distance(from),
                Shape::Many(_) => f64::INFINITY,
            };
            least = least.min(distance);
            least == 0.0
        });
        least
    }

    /// Returns true if the shape certainly contains all points within `radius` of `center`.
    pub(super) fn covers_disc(&self, center: &Point, radius: f64) -> bool {
        self.any(&mut |part| match part {
            Shape::Polygon(polygon) => {
                polygon.contains_point(center) && polygon.border_distance(center) > radius
            }
            _ => false,
        })
    }
}

fn contains_simple(outer: &Shape, inner: &Shape) -> bool {
    let Shape::Polygon(outer) = outer else { return false };
    match inner {
        Shape::Point(p) => outer.contains_point(p),
        Shape::Line(line) => outer.contains_chain(line),
        Shape::Polygon(polygon) => outer.contains(polygon),
        Shape::Many(_) => false,
    }
}

fn intersects_simple(a: &Shape, b: &Shape) -> bool {
    match (a, b) {
        (Shape::Point(a), Shape::Point(b)) => sphere::angle(a, b) <= TOUCH,
        (Shape::Point(p), Shape::Line(line)) | (Shape::Line(line), Shape::Point(p)) => {
            line.distance(p) <= TOUCH
        }
        (Shape::Point(p), Shape::Polygon(polygon)) | (Shape::Polygon(polygon), Shape::Point(p)) => {
            polygon.contains_point(p)
        }
        (Shape::Line(a), Shape::Line(b)) => lines_meet(a, b),
        (Shape::Line(line), Shape::Polygon(polygon))
        | (Shape::Polygon(polygon), Shape::Line(line)) => polygon.intersects_chain(line),
        (Shape::Polygon(a), Shape::Polygon(b)) => a.intersects(b),
        (Shape::Many(_), _) | (_, Shape::Many(_)) => false,
    }
}

/// Returns true if two lines cross or share a vertex.
fn lines_meet(a: &Chain, b: &Chain) -> bool {
    a.edges().any(|(p, q)| {
        b.any_edge_near(&Block::of_edge(p, q), &mut |at| {
            let (r, s) = b.edge(at);
            sphere::crossing(p, q, r, s) != Crossing::None
        })
    })
}

/// A disc on the sphere.
#[derive(Debug, Clone)]
pub struct Disc {
    pub center: Point,
    /// The radius in radians.
    pub radius: f64,
}

impl Disc {
    pub(super) fn contains(&self, shape: &Shape) -> bool {
        if self.radius >= std::f64::consts::PI {
            return true;
        }
        if let Shape::Point(p) = shape {
            return sphere::angle(&self.center, p) <= self.radius;
        }
        // All points are within the radius exactly if no point is near the antipode of the centre.
        let opposite = Point(self.center.0 * -1.0);
        shape.distance(&opposite) >= std::f64::consts::PI - self.radius
    }

    /// Returns true if some point of the shape is within the radius.
    pub(super) fn meets(&self, shape: &Shape) -> bool {
        shape.distance(&self.center) <= self.radius
    }
}
