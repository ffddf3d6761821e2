//! The kinds of indexes: one file for each, and the list of their rows.

mod btree;
mod geo;
mod grid;
mod hashed;
mod text;
mod wildcard;

pub use geo::Geometry;
pub(super) use geo::column_of;
pub use grid::Grid;
pub use hashed::hash_value;
pub use text::key_term;

use super::kind::KindFacts;

/// All kinds, sorted by name except for the ordinary kind, which is the first.
pub(super) static KINDS: &[&KindFacts] = &[
    &btree::BTREE,
    &grid::TWO_D,
    &geo::TWO_D_SPHERE,
    &geo::OF_BUCKETS,
    &hashed::HASHED,
    &text::TEXT,
    &wildcard::WILDCARD,
];
