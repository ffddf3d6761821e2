//! Geometry: GeoJSON and legacy coordinate pairs, on the sphere and in the plane.
//!
//! ```text
//!   parse.rs     documents -> shapes, with MongoDB's error texts
//!   sphere.rs    points and edges: exact orientation, crossings, distances
//!   chain.rs     lines and rings, with a hierarchy of bounding boxes over their edges
//!   polygon.rs   containment and intersection of polygons
//!   shape.rs     all kinds of shapes on the sphere
//!   flat.rs      regions of the plane
//!   query.rs     $geoWithin, $geoIntersects
//!   near.rs      $near and its variants
//!   cover.rs     the cells that cover a region, for indexes
//! ```
//!
//! Points and cells are those of the library `s2`. It has no polygons (decision 022), so the relations of polygons
//! are implemented here.
//!
//! Invariants
//! - Orientation is exact, so all decisions that are derived from it are consistent with each other.
//! - Borders are closed: a point within `TOUCH` (about 6 mm) of a border is inside.
//! - A covering contains every point of its region; it may contain more.
//!
//! This module does not know indexes or paths; it reads only the one value that it is given.

mod chain;
mod cover;
mod flat;
mod near;
mod parse;
mod polygon;
mod query;
mod shape;
mod sphere;

pub use cover::{Fineness, LEVEL_MAX, Zone, ancestors, leaf, range};
pub use flat::Flat;
pub use near::{GeoNear, Measure, Near};
pub use parse::{Region, pair, stored};
pub use query::{GeoTest, Relation};
pub use shape::{Disc, Shape, Stored};
pub use sphere::{EARTH_RADIUS_M, Point, angle, is_lng_lat, point_at};
