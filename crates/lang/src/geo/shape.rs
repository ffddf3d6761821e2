//! Shapes on the sphere and how they relate; what is stored at a path.

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

/// A geometry as a document holds it.
#[derive(Debug, Clone)]
pub enum Stored {
    /// A point, from a legacy pair or GeoJSON; the flat plane takes both.
    Point {
        x: f64,
        y: f64,
        legacy: bool,
    },
    Shape(Shape),
    /// A polygon that says of itself which side is inside; it may be larger than a hemisphere.
    StrictPolygon(Polygon),
}

impl Stored {
    /// The geometry on the sphere; none if it is a pair outside of longitudes and latitudes, or a
    /// polygon with strict winding, which nothing matches.
    pub fn on_sphere(&self) -> Option<Shape> {
        match self {
            Stored::Point { x, y, .. } => {
                sphere::is_lng_lat(*x, *y).then(|| Shape::Point(sphere::point_at(*x, *y)))
            }
            Stored::Shape(shape) => Some(shape.clone()),
            Stored::StrictPolygon(_) => None,
        }
    }

    /// The point in the plane, if it is one.
    pub fn in_plane(&self) -> Option<(f64, f64)> {
        match self {
            Stored::Point { x, y, .. } => Some((*x, *y)),
            _ => None,
        }
    }
}

impl Shape {
    /// Calls `visit` with each simple shape until it answers true.
    fn any(&self, visit: &mut dyn FnMut(&Shape) -> bool) -> bool {
        match self {
            Shape::Many(parts) => parts.iter().any(|part| part.any(visit)),
            simple => visit(simple),
        }
    }

    /// Whether every place of `inner` lies in this shape. Only polygons contain.
    pub fn contains(&self, inner: &Shape) -> bool {
        // Each simple part needs one polygon that holds all of it.
        !inner.any(&mut |part| !self.any(&mut |polygon| contains_simple(polygon, part)))
    }

    /// Whether the shapes have a place in common.
    pub fn intersects(&self, other: &Shape) -> bool {
        self.any(&mut |a| other.any(&mut |b| intersects_simple(a, b)))
    }

    /// The angle from a point to the nearest place of the shape, radians; 0 inside a polygon.
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

    /// Whether all that lies within `radius` of `center` surely lies in the shape.
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

/// Whether two lines cross or have a vertex in common.
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
    /// Radians.
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
        // Everything within the radius means: nothing near the other end of the world.
        let opposite = Point(self.center.0 * -1.0);
        shape.distance(&opposite) >= std::f64::consts::PI - self.radius
    }
}
