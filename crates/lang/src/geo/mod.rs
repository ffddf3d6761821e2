//! Geometry: GeoJSON and legacy pairs, on the sphere and in the plane.
//!
//!   parse.rs     documents -> shapes; every fault in MongoDB's words
//!   sphere.rs    points and edges: exact orientation, crossings, distances
//!   chain.rs     lines and rings with boxes over their edges
//!   polygon.rs   what contains and what intersects
//!   shape.rs     all kinds of shapes; flat.rs: the plane
//!   query.rs     $geoWithin, $geoIntersects; near.rs: $near
//!   cover.rs     cells that hold a region, for indexes
//!
//! Points and cells are those of the library `s2`; it has no polygons (decision 022), so the relations
//! are here. Does not know about: indexes, paths, documents beyond the one value it is given.

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
