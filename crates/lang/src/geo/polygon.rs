//! Polygons on the sphere: a shell with holes, and their relations to points, lines and polygons.
//!
//! The inside of a ring is to the left of its edges. The relations are derived from three things: exact crossings of
//! edges, the parity of crossings (to decide if a point is inside), and distances to borders.
//!
//! Borders are closed: a point within [`TOUCH`] of a border is inside, and a line along a border is contained. Two
//! polygons intersect only if their interiors do: neighbours that share a border do not intersect.
//!
//! An edge that touches a border without crossing it (at a vertex, or along it) is cut where it touches, and each
//! part is classified by its middle:
//!
//! ```text
//!   border  ----*---------*----      * touching points
//!   edge   a----*----m----*----b     m is the middle of one part
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::{
    chain::{Block, Chain},
    sphere::{self, Crossing, Point, TOUCH},
};

/// A closed chain with an interior.
#[derive(Debug, Clone)]
pub struct Ring {
    chain: Chain,
    /// True if the point from which parity is counted is inside.
    origin_inside: bool,
}

/// A shell with its holes taken out.
#[derive(Debug, Clone)]
pub struct Polygon {
    shell: Ring,
    holes: Vec<Ring>,
}

/// An error in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingFault {
    /// Two vertices are the same point.
    Duplicate(usize, usize),
    /// Two edges cross.
    Cross(usize, usize),
}

impl std::fmt::Display for RingFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RingFault::Duplicate(a, b) => write!(f, "Duplicate vertices: {a} and {b}"),
            RingFault::Cross(a, b) => write!(f, "Edges {a} and {b} cross"),
        }
    }
}

/// An error in the combination of a polygon's loops, each of which is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopFault {
    /// Two loops share an edge: (loop, edge) of each.
    SharedEdge { own: (usize, usize), other: (usize, usize) },
    /// A hole shares two vertices with the shell.
    SharedVertices { hole: usize },
}

impl std::fmt::Display for LoopFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoopFault::SharedEdge { own, other } => write!(
                f,
                "Duplicate edge: loop {}, edge {} and loop {}, edge {}",
                own.0, own.1, other.0, other.1
            ),
            LoopFault::SharedVertices { hole } => {
                write!(f, "Loop {hole} shares more than one vertex with its parent loop 0")
            }
        }
    }
}

impl Ring {
    /// A ring whose interior is to the left of its edges. It needs at least three distinct vertices.
    pub fn new(vertices: Vec<Point>) -> Ring {
        let mut ring = Ring { chain: Chain::closed(vertices), origin_inside: false };
        // The second vertex lies on the ring. It counts as inside if the reference direction at it points into the
        // ring. This determines if the origin is inside.
        let (before, at, after) =
            (ring.chain.vertices()[0], ring.chain.vertices()[1], ring.chain.vertices()[2]);
        let inside = sphere::ordered(&sphere::reference(&at), &before, &after, &at);
        ring.origin_inside = inside != ring.holds(&at);
        ring
    }

    /// A ring oriented so that its interior is at most half the sphere.
    pub fn smaller_side(vertices: Vec<Point>) -> Ring {
        let turning = turning_angle(&vertices);
        let ring = Ring::new(vertices);
        if turning < -1e-13 { ring.inverted() } else { ring }
    }

    /// The ring with its interior and exterior exchanged.
    pub fn inverted(&self) -> Ring {
        Ring { chain: self.chain.reversed(), origin_inside: !self.origin_inside }
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns true if the point is inside by the parity of crossings.
    fn holds(&self, p: &Point) -> bool {
        let origin = Point::origin();
        let ray = Block::of_edge(&origin, p);
        let mut inside = self.origin_inside;
        self.chain.any_edge_near(&ray, &mut |at| {
            let (a, b) = self.chain.edge(at);
            inside ^= sphere::crosses_or_at_vertex(&origin, p, a, b);
            false
        });
        inside
    }

    fn touches(&self, p: &Point) -> bool {
        self.chain.distance(p) <= TOUCH
    }

    /// Returns true if the point is inside and not on the border.
    fn strictly_holds(&self, p: &Point) -> bool {
        self.holds(p) && !self.touches(p)
    }

    /// A point inside of the ring, away from the border if such a point exists.
    pub(super) fn inner_point(&self) -> Point {
        self.point_beside(&|p| self.strictly_holds(p)).unwrap_or_else(|| self.border_point())
    }

    /// A point to the left of the border for which `good` returns true; candidates come closer and closer to the
    /// border.
    fn point_beside(&self, good: &dyn Fn(&Point) -> bool) -> Option<Point> {
        for (a, b) in self.chain.edges() {
            let middle = sphere::middle(a, b);
            let left = a.0.cross(&b.0).normalize();
            let mut step = sphere::angle(a, b) / 2.0;
            while step > 4.0 * TOUCH {
                let p = Point((middle.0 + left * step).normalize());
                if good(&p) {
                    return Some(p);
                }
                step /= 4.0;
            }
        }
        None
    }

    fn border_point(&self) -> Point {
        let first = self.chain.edges().next();
        first.map_or_else(|| self.chain.vertices()[0], |(a, b)| sphere::middle(a, b))
    }

    /// The first error of the ring: equal vertices or crossing edges.
    pub fn fault(&self) -> Option<RingFault> {
        let vertices = self.chain.vertices();
        let mut order: Vec<usize> = (0..vertices.len()).collect();
        let key = |at: usize| (vertices[at].0.x, vertices[at].0.y, vertices[at].0.z);
        let compare = |a: (f64, f64, f64), b: (f64, f64, f64)| {
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        };
        order.sort_by(|a, b| compare(key(*a), key(*b)).then(a.cmp(b)));
        let twice = order.windows(2).find(|pair| vertices[pair[0]] == vertices[pair[1]]);
        if let Some(pair) = twice {
            return Some(RingFault::Duplicate(pair[0], pair[1]));
        }
        for at in 0..self.chain.edge_count() {
            let (a, b) = self.chain.edge(at);
            let mut found = None;
            self.chain.any_edge_near(&Block::of_edge(a, b), &mut |other| {
                let (c, d) = self.chain.edge(other);
                if other > at && sphere::crossing(a, b, c, d) == Crossing::Proper {
                    found = Some(RingFault::Cross(at, other));
                }
                found.is_some()
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns true if this ring, including its border, contains every point of `inner`.
    pub fn contains_ring(&self, inner: &Ring) -> bool {
        let outer = Polygon::new(self.clone(), Vec::new());
        outer.contains(&Polygon::new(inner.clone(), Vec::new()))
    }
}

/// A point in a form that can be ordered.
fn key(p: &Point) -> [u64; 3] {
    // Adding zero converts -0.0 to 0.0.
    [p.0.x, p.0.y, p.0.z].map(|coordinate| (coordinate + 0.0).to_bits())
}

/// The sum of the turning angles at the vertices: positive if the left side is the smaller one.
fn turning_angle(vertices: &[Point]) -> f64 {
    let count = vertices.len();
    let turn = |at: usize| {
        let (a, b, c) = (&vertices[at], &vertices[(at + 1) % count], &vertices[(at + 2) % count]);
        let angle = a.0.cross(&b.0).angle(&b.0.cross(&c.0)).rad();
        if sphere::orientation(a, b, c) > 0 { angle } else { -angle }
    };
    (0..count).map(turn).sum()
}

/// The relation of an edge to the border of a polygon.
enum Parts {
    /// The edge crosses the border.
    Crosses,
    /// The middles of the parts between the points where the edge touches the border.
    Middles(Vec<Point>),
}

impl Polygon {
    pub fn new(shell: Ring, holes: Vec<Ring>) -> Polygon {
        Polygon { shell, holes }
    }

    pub fn shell(&self) -> &Ring {
        &self.shell
    }

    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        std::iter::once(&self.shell).chain(&self.holes)
    }

    fn holds(&self, p: &Point) -> bool {
        self.shell.holds(p) && !self.holes.iter().any(|hole| hole.holds(p))
    }

    /// The angle from a point to the nearest point of the border, in radians.
    pub(super) fn border_distance(&self, p: &Point) -> f64 {
        let chord2 = self.rings().map(|ring| ring.chain.chord2(p)).fold(f64::INFINITY, f64::min);
        sphere::angle_of_chord2(chord2)
    }

    /// Returns true if the point is inside or on the border.
    pub fn contains_point(&self, p: &Point) -> bool {
        self.holds(p) || self.border_distance(p) <= TOUCH
    }

    fn strictly_holds(&self, p: &Point) -> bool {
        self.holds(p) && self.border_distance(p) > TOUCH
    }

    /// Cuts the edge `ab` where it touches the border.
    fn parts(&self, a: &Point, b: &Point) -> Parts {
        let near = Block::of_edge(a, b).grown(2.0 * TOUCH);
        let touch2 = TOUCH * TOUCH;
        let mut cuts = Vec::new();
        for ring in self.rings() {
            let crosses = ring.chain.any_edge_near(&near, &mut |at| {
                let (c, d) = ring.chain.edge(at);
                if sphere::edge_chord2(c, a, b) <= touch2 {
                    cuts.push(sphere::chord2(a, c));
                    return false;
                }
                let touches = sphere::edge_chord2(d, a, b) <= touch2
                    || sphere::edge_chord2(a, c, d) <= touch2
                    || sphere::edge_chord2(b, c, d) <= touch2;
                !touches && sphere::crossing(a, b, c, d) == Crossing::Proper
            });
            if crosses {
                return Parts::Crosses;
            }
        }
        let whole = sphere::angle(a, b);
        let mut at: Vec<f64> = cuts
            .into_iter()
            .map(|chord2| (sphere::angle_of_chord2(chord2) / whole).clamp(0.0, 1.0))
            .filter(|at| at.is_finite())
            .chain([0.0, 1.0])
            .collect();
        at.sort_by(f64::total_cmp);
        let middles = at.windows(2).filter(|pair| (pair[1] - pair[0]) * whole > 4.0 * TOUCH);
        let middles: Vec<Point> = middles
            .map(|pair| s2::edgeutil::interpolate((pair[0] + pair[1]) / 2.0, a, b))
            .collect();
        Parts::Middles(if middles.is_empty() { vec![sphere::middle(a, b)] } else { middles })
    }

    /// Returns true if the line lies inside, including the border.
    pub fn contains_chain(&self, line: &Chain) -> bool {
        line.vertices().iter().all(|p| self.contains_point(p))
            && line.edges().all(|(a, b)| match self.parts(a, b) {
                Parts::Crosses => false,
                Parts::Middles(middles) => middles.iter().all(|p| self.contains_point(p)),
            })
    }

    /// Returns true if the line has a point inside or on the border.
    pub fn intersects_chain(&self, line: &Chain) -> bool {
        line.vertices().iter().any(|p| self.contains_point(p)) || self.enters(line, true)
    }

    /// Returns true if an edge crosses the border or has a part inside; with `closed`, also if it touches a vertex.
    fn enters(&self, line: &Chain, closed: bool) -> bool {
        line.edges().any(|(a, b)| match self.parts(a, b) {
            Parts::Crosses => true,
            Parts::Middles(middles) if closed => {
                middles.iter().any(|p| self.contains_point(p)) || self.has_vertex_on(a, b)
            }
            Parts::Middles(middles) => middles.iter().any(|p| self.strictly_holds(p)),
        })
    }

    fn has_vertex_on(&self, a: &Point, b: &Point) -> bool {
        let near = Block::of_edge(a, b).grown(2.0 * TOUCH);
        self.rings().any(|ring| {
            ring.chain.any_edge_near(&near, &mut |at| {
                sphere::edge_chord2(ring.chain.edge(at).0, a, b) <= TOUCH * TOUCH
            })
        })
    }

    /// A point inside of the polygon, away from the border if such a point exists.
    fn inner_point(&self) -> Point {
        // A point near the shell may lie in a hole; a point near a hole may lie in another hole or outside of the
        // shell.
        let good = |p: &Point| self.strictly_holds(p);
        let beside_holes =
            || self.holes.iter().find_map(|hole| hole.inverted().point_beside(&good));
        let found = self.shell.point_beside(&good).or_else(beside_holes);
        found.unwrap_or_else(|| self.shell.border_point())
    }

    /// The first error in the combination of the loops.
    pub fn fault(&self) -> Option<LoopFault> {
        let mut edges = BTreeMap::new();
        for (at, ring) in self.rings().enumerate() {
            for (edge, (a, b)) in ring.chain.edges().enumerate() {
                let (a, b) = (key(a), key(b));
                let other = *edges.entry((a.min(b), a.max(b))).or_insert((at, edge));
                if other.0 != at {
                    return Some(LoopFault::SharedEdge { own: (at, edge), other });
                }
            }
        }
        let shell: BTreeSet<[u64; 3]> = self.shell.chain.vertices().iter().map(key).collect();
        let shared = |hole: &Ring| {
            hole.chain.vertices().iter().filter(|p| shell.contains(&key(p))).take(2).count() > 1
        };
        let hole = self.holes.iter().position(shared)?;
        Some(LoopFault::SharedVertices { hole: hole + 1 })
    }

    /// Returns true if this polygon, including its border, contains every point of `inner`.
    pub fn contains(&self, inner: &Polygon) -> bool {
        if !inner.rings().all(|ring| self.contains_chain(&ring.chain)) {
            return false;
        }
        // The border of `inner` does not leave this polygon. The exterior of this polygon consists of the other side
        // of its shell and of its holes. None of them may lie within `inner`.
        self.contains_point(&inner.inner_point())
            && !inner.strictly_holds(&self.shell.inverted().inner_point())
            && !self.holes.iter().any(|hole| inner.strictly_holds(&hole.inner_point()))
    }

    /// Returns true if the interiors of two polygons have a point in common.
    pub fn intersects(&self, other: &Polygon) -> bool {
        other.rings().any(|ring| self.enters(&ring.chain, false))
            || self.rings().any(|ring| other.enters(&ring.chain, false))
            || self.strictly_holds(&other.inner_point())
            || other.strictly_holds(&self.inner_point())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geo::sphere::point_at;

    fn ring(points: &[(f64, f64)]) -> Ring {
        Ring::smaller_side(points.iter().map(|(lng, lat)| point_at(*lng, *lat)).collect())
    }

    fn square(west: f64, south: f64, side: f64) -> Ring {
        let (east, north) = (west + side, south + side);
        ring(&[(west, south), (east, south), (east, north), (west, north)])
    }

    fn polygon(shell: Ring) -> Polygon {
        Polygon::new(shell, Vec::new())
    }

    #[test]
    fn points_inside_outside_and_on_the_border() {
        let p = polygon(square(0.0, 0.0, 4.0));
        for (lng, lat) in [(1.0, 1.0), (0.0, 0.0), (4.0, 4.0), (2.0, 0.0), (0.0, 2.0), (4.0, 1.0)] {
            assert!(p.contains_point(&point_at(lng, lat)), "{lng} {lat}");
        }
        for (lng, lat) in [(-0.1, 1.0), (2.0, -0.0001), (100.0, 10.0), (0.0, 90.0), (-178.0, -2.0)]
        {
            assert!(!p.contains_point(&point_at(lng, lat)), "{lng} {lat}");
        }
        let around_pole = polygon(ring(&[(0.0, 60.0), (90.0, 60.0), (180.0, 60.0), (-90.0, 60.0)]));
        assert!(around_pole.contains_point(&point_at(33.0, 90.0)));
        assert!(!around_pole.contains_point(&point_at(0.0, -90.0)));
        let big = polygon(around_pole.shell().inverted());
        assert!(big.contains_point(&point_at(0.0, -90.0)));
        assert!(!big.contains_point(&point_at(0.0, 90.0)));
    }

    #[test]
    fn holes_are_outside() {
        let p = Polygon::new(square(0.0, 0.0, 10.0), vec![square(2.0, 2.0, 2.0)]);
        assert!(p.contains_point(&point_at(1.0, 1.0)));
        assert!(!p.contains_point(&point_at(3.0, 3.0)));
        assert!(p.contains_point(&point_at(2.0, 3.0)), "the border of a hole");
        assert!(!p.contains(&polygon(square(2.0, 2.0, 2.0))), "what fills the hole");
        assert!(!p.intersects(&polygon(square(2.0, 2.0, 2.0))));
        assert!(!p.intersects(&polygon(square(2.5, 2.5, 1.0))));
        assert!(!p.contains(&polygon(square(1.0, 1.0, 4.0))), "around the hole");
        assert!(p.intersects(&polygon(square(1.0, 1.0, 4.0))));
        assert!(p.contains(&polygon(square(5.0, 5.0, 4.0))));
        assert!(p.contains(&p.clone()));
    }

    #[test]
    fn a_polygon_whose_hole_is_most_of_it_holds_itself() {
        for margin in [0.01, 0.1, 0.2, 0.3, 0.45] {
            let side = 1.0 - 2.0 * margin;
            let hole = square(100.0 + margin, margin, side);
            let p = Polygon::new(square(100.0, 0.0, 1.0), vec![hole]);
            assert!(p.strictly_holds(&p.inner_point()), "{margin}");
            assert!(p.contains(&p.clone()) && p.intersects(&p.clone()), "{margin}");
        }
    }

    #[test]
    fn loops_have_no_edge_in_common() {
        let shell = square(0.0, 0.0, 4.0);
        let of = |hole: Ring| Polygon::new(shell.clone(), vec![hole]).fault();
        assert!(matches!(of(shell.clone()), Some(LoopFault::SharedEdge { .. })));
        assert!(matches!(of(shell.inverted()), Some(LoopFault::SharedEdge { .. })));
        assert_eq!(of(square(1.0, 1.0, 1.0)), None);
        let one = ring(&[(0.0, 0.0), (2.0, 1.0), (1.0, 2.0)]);
        assert_eq!(of(one), None, "one vertex in common");
        let two = ring(&[(0.0, 0.0), (3.0, 2.0), (4.0, 4.0), (2.0, 3.0)]);
        assert_eq!(of(two), Some(LoopFault::SharedVertices { hole: 1 }));
    }

    #[test]
    fn neighbours_touch_but_do_not_intersect() {
        let (a, b) = (polygon(square(0.0, 0.0, 2.0)), polygon(square(2.0, 0.0, 2.0)));
        assert!(!a.intersects(&b) && !b.intersects(&a));
        assert!(!a.contains(&b));
        let long = polygon(ring(&[(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (0.0, 3.0)]));
        assert!(a.intersects(&long), "their sides run along each other");
        assert!(a.contains_chain(&Chain::open(vec![point_at(2.0, 0.5), point_at(2.0, 1.5)])));
        assert!(a.intersects_chain(&Chain::open(vec![point_at(2.0, 2.0), point_at(3.0, 3.0)])));
        assert!(!a.intersects_chain(&Chain::open(vec![point_at(2.1, 2.1), point_at(3.0, 3.0)])));
        assert!(a.intersects_chain(&Chain::open(vec![point_at(-1.0, 1.0), point_at(3.0, 1.0)])));
    }

    #[test]
    fn faults() {
        let bow = Ring::new(
            [(0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0)].map(|(a, b)| point_at(a, b)).to_vec(),
        );
        assert_eq!(bow.fault(), Some(RingFault::Cross(0, 2)));
        let twice = [(0.0, 0.0), (2.0, 0.0), (1.0, 1.0), (2.0, 0.0)].map(|(a, b)| point_at(a, b));
        assert_eq!(Ring::new(twice.to_vec()).fault(), Some(RingFault::Duplicate(1, 3)));
        assert_eq!(square(0.0, 0.0, 1.0).fault(), None);
    }

    /// A convex ring around a centre. The turns alone determine if a point is inside.
    fn convex() -> impl Strategy<Value = Vec<Point>> {
        (-170.0..170.0f64, -80.0..80.0f64, 0.01..30.0f64, 3usize..40).prop_map(
            |(lng, lat, radius, count)| {
                let radius = s2::s1::Angle::from(s2::s1::Deg(radius));
                s2::point::regular_points(&point_at(lng, lat), radius, count)
            },
        )
    }

    proptest! {
        #[test]
        fn parity_agrees_with_turns(v in convex(), lng in -180.0..180.0f64, lat in -90.0..90.0f64) {
            let p = point_at(lng, lat);
            let left = (0..v.len())
                .all(|i| sphere::orientation(&v[i], &v[(i + 1) % v.len()], &p) > 0);
            let ring = Ring::new(v);
            prop_assert_eq!(ring.holds(&p), left);
            prop_assert_eq!(ring.inverted().holds(&p), !left);
        }

        #[test]
        fn containing_implies_intersecting(a in convex(), b in convex()) {
            let (a, b) = (polygon(Ring::new(a)), polygon(Ring::new(b)));
            prop_assert_eq!(a.intersects(&b), b.intersects(&a));
            if a.contains(&b) {
                prop_assert!(a.intersects(&b));
                prop_assert!(a.contains_point(&b.inner_point()));
            }
            prop_assert!(a.contains(&a) && a.intersects(&a));
            let outside = polygon(a.shell().inverted());
            prop_assert!(!outside.intersects(&a));
            prop_assert_eq!(outside.contains(&b), !a.intersects(&b));
        }
    }
}
