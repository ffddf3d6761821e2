//! Points and edges on the unit sphere: orientation, crossings, distances.
//!
//! Orientation is exact. It is computed in floating point if the error bound allows, otherwise in the exact
//! arithmetic of the library `robust`. For three points on one great circle it is decided by a symbolic perturbation
//! (Edelsbrunner's "simulation of simplicity"). So all decisions derived from orientations are consistent. Positions
//! nearer than [`TOUCH`] count as equal: a border belongs to both sides.

use robust::{Coord, Coord3D, orient2d, orient3d};
use s2::{latlng::LatLng, r3::vector::Vector};

pub use s2::point::Point;

/// The distance in radians below which two points touch: about six millimetres on the Earth, the size of the smallest
/// cell of an index.
pub(super) const TOUCH: f64 = 1e-9;

/// The radius of the Earth in metres: the length of one radian.
pub const EARTH_RADIUS_M: f64 = 6_378_100.0;

/// The bound of the rounding error of a determinant of three unit vectors.
const DETERMINANT_ERROR: f64 = 1.8274 * f64::EPSILON;

/// The point at a longitude and latitude in degrees.
pub fn point_at(lng: f64, lat: f64) -> Point {
    Point::from(LatLng::from_degrees(lat, lng).normalized())
}

/// Returns true if the pair is a valid longitude and latitude.
pub fn is_lng_lat(lng: f64, lat: f64) -> bool {
    (-180.0..=180.0).contains(&lng) && (-90.0..=90.0).contains(&lat)
}

/// The angle between two points, in radians.
pub fn angle(a: &Point, b: &Point) -> f64 {
    a.distance(b).rad()
}

/// The squared length of the chord between two points.
pub(super) fn chord2(a: &Point, b: &Point) -> f64 {
    (a.0 - b.0).norm2()
}

/// The angle of a squared chord, in radians.
pub(super) fn angle_of_chord2(chord2: f64) -> f64 {
    2.0 * (0.5 * chord2.max(0.0).sqrt()).min(1.0).asin()
}

/// The squared chord from `x` to the nearest point of the edge `ab`.
pub(super) fn edge_chord2(x: &Point, a: &Point, b: &Point) -> f64 {
    let ends = chord2(x, a).min(chord2(x, b));
    let normal = a.0.cross(&b.0);
    let length2 = normal.norm2();
    if length2 <= 1e-30 {
        return ends;
    }
    // The foot of the perpendicular is on the edge if x is between the planes through the ends of the edge.
    let beside = normal.cross(&x.0);
    if a.0.dot(&beside) >= 0.0 || b.0.dot(&beside) <= 0.0 {
        return ends;
    }
    let height = x.0.dot(&normal);
    let along = 1.0 - (beside.norm2() / length2).sqrt();
    (height * height / length2 + along * along).min(ends)
}

/// The direction of the turn a, b, c: 1 left (counterclockwise), -1 right, 0 only if two points are equal.
pub(super) fn orientation(a: &Point, b: &Point, c: &Point) -> i8 {
    let determinant = a.0.cross(&b.0).dot(&c.0);
    if determinant > DETERMINANT_ERROR {
        return 1;
    }
    if determinant < -DETERMINANT_ERROR {
        return -1;
    }
    if a == b || b == c || c == a {
        return 0;
    }
    match sign(exact_determinant(a, b, c)) {
        0 => perturbed(a, b, c),
        known => known,
    }
}

fn sign(value: f64) -> i8 {
    match value {
        v if v > 0.0 => 1,
        v if v < 0.0 => -1,
        _ => 0,
    }
}

/// The determinant of three vectors; its sign is exact.
fn exact_determinant(a: &Point, b: &Point, c: &Point) -> f64 {
    let coord = |p: &Point| Coord3D { x: p.0.x, y: p.0.y, z: p.0.z };
    orient3d(coord(a), coord(b), coord(c), Coord3D { x: 0.0, y: 0.0, z: 0.0 })
}

/// The exact sign of `a * d - b * c`.
fn minor(a: f64, b: f64, c: f64, d: f64) -> i8 {
    sign(orient2d(Coord { x: a, y: b }, Coord { x: c, y: d }, Coord { x: 0.0, y: 0.0 }))
}

/// The orientation of three distinct points on one great circle. Each point is moved by an infinitesimal amount; the
/// amount is larger for points that are smaller in lexicographic order.
fn perturbed(a: &Point, b: &Point, c: &Point) -> i8 {
    let less = |p: &Point, q: &Point| (p.0.x, p.0.y, p.0.z) < (q.0.x, q.0.y, q.0.z);
    let (mut a, mut b, mut c) = (a.0, b.0, c.0);
    let mut permutation = 1;
    let mut order = |p: &mut Vector, q: &mut Vector| {
        if less(&Point(*q), &Point(*p)) {
            std::mem::swap(p, q);
            permutation = -permutation;
        }
    };
    order(&mut a, &mut b);
    order(&mut b, &mut c);
    order(&mut a, &mut b);
    permutation * perturbed_in_order(&a, &b, &c)
}

/// The sign of the first nonzero coefficient of the perturbed determinant, for a < b < c.
fn perturbed_in_order(a: &Vector, b: &Vector, c: &Vector) -> i8 {
    let coefficients = [
        minor(b.x, b.y, c.x, c.y),
        -minor(b.x, b.z, c.x, c.z),
        minor(b.y, b.z, c.y, c.z),
        minor(c.x, c.y, a.x, a.y),
        sign(c.x),
        -sign(c.y),
        minor(c.z, c.x, a.z, a.x),
        sign(c.z),
        minor(a.x, a.y, b.x, b.y),
        -sign(b.x),
        sign(b.y),
        sign(a.x),
    ];
    coefficients.into_iter().find(|found| *found != 0).unwrap_or(1)
}

/// The way in which two edges meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crossing {
    None,
    /// They share an end point.
    Vertex,
    /// They cross at inner points of both edges.
    Proper,
}

/// Determines how the edges `ab` and `cd` meet.
pub(super) fn crossing(a: &Point, b: &Point, c: &Point, d: &Point) -> Crossing {
    if a == c || a == d || b == c || b == d {
        return Crossing::Vertex;
    }
    let acb = orientation(a, c, b);
    let proper = acb != 0
        && orientation(b, d, a) == acb
        && orientation(c, b, d) == acb
        && orientation(d, a, c) == acb;
    if proper { Crossing::Proper } else { Crossing::None }
}

/// Returns true if `ab` crosses `cd`. A shared end point counts in such a way that a line through a vertex of a ring
/// crosses exactly one of the two edges at the vertex.
pub(super) fn crosses_or_at_vertex(a: &Point, b: &Point, c: &Point, d: &Point) -> bool {
    match crossing(a, b, c, d) {
        Crossing::None => false,
        Crossing::Proper => true,
        Crossing::Vertex if a == b || c == d => false,
        Crossing::Vertex if a == c => b == d || ordered(&reference(a), d, b, a),
        Crossing::Vertex if b == d => ordered(&reference(b), c, a, b),
        Crossing::Vertex if a == d => b == c || ordered(&reference(a), c, b, a),
        Crossing::Vertex => ordered(&reference(b), d, a, b),
    }
}

/// A fixed direction at a point.
pub(super) fn reference(at: &Point) -> Point {
    at.ortho()
}

/// Returns true if the directions from `o` to a, b, c are in counterclockwise order.
pub(super) fn ordered(a: &Point, b: &Point, c: &Point, o: &Point) -> bool {
    let votes = u8::from(orientation(b, o, a) >= 0)
        + u8::from(orientation(c, o, b) >= 0)
        + u8::from(orientation(a, o, c) > 0);
    votes >= 2
}

/// The middle of an edge shorter than half a great circle.
pub(super) fn middle(a: &Point, b: &Point) -> Point {
    Point((a.0 + b.0).normalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orientation_is_antisymmetric_and_cyclic_even_on_one_circle() {
        let mut points = Vec::new();
        for (lng, lat) in [(0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (180.0, 0.0), (-90.0, 0.0)] {
            points.push(point_at(lng, lat));
        }
        for (lng, lat) in [(0.0, 10.0), (0.0, 20.0), (0.0, 90.0), (10.0, 90.0), (7.0, -3.0)] {
            points.push(point_at(lng, lat));
        }
        for a in &points {
            for b in &points {
                for c in &points {
                    let turn = orientation(a, b, c);
                    assert_eq!(turn == 0, a == b || b == c || c == a, "{a:?} {b:?} {c:?}");
                    assert_eq!(turn, orientation(b, c, a));
                    assert_eq!(turn, -orientation(c, b, a));
                }
            }
        }
        let (x, y, z) = (point_at(0.0, 0.0), point_at(90.0, 0.0), point_at(0.0, 90.0));
        assert_eq!(orientation(&x, &y, &z), 1);
    }

    #[test]
    fn distances_to_edges() {
        let (a, b) = (point_at(0.0, 0.0), point_at(10.0, 0.0));
        let to = |lng, lat| angle_of_chord2(edge_chord2(&point_at(lng, lat), &a, &b)).to_degrees();
        assert!((to(5.0, 3.0) - 3.0).abs() < 1e-9);
        assert!((to(-2.0, 0.0) - 2.0).abs() < 1e-9);
        assert!((to(175.0, 0.0) - 165.0).abs() < 1e-7);
        assert!(to(5.0, 0.0) < 1e-12);
    }

    #[test]
    fn crossings() {
        let p = point_at;
        let meets = |a, b, c, d| crossing(&a, &b, &c, &d);
        let (a, b) = (p(-1.0, 0.0), p(1.0, 0.0));
        assert_eq!(meets(a, b, p(0.0, -1.0), p(0.0, 1.0)), Crossing::Proper);
        assert_eq!(meets(a, b, p(0.0, 1.0), p(0.0, 2.0)), Crossing::None);
        assert_eq!(meets(a, b, b, p(0.0, 2.0)), Crossing::Vertex);
    }
}
