//! Filters: what `find`, `$match`, `update` and partial indexes select by.
//!
//!   Filter::parse -> tree of nodes -> normalize -> matches(document)
//!
//! A leaf is a path and a predicate on the values that the path yields; it matches when any of them
//! does. Negations are nodes of their own (`$ne` is Not(Compare)), so that "no element equals" comes
//! out by itself. `Filter` is an enum on purpose: the planner looks inside to derive index bounds.
//!
//! Matching walks the bytes of the document; it allocates nothing unless `$expr` does.
//!
//! Does not know about: indexes, collections, where a collation comes from.

mod bits;
mod elem;
mod encrypted_fields;
mod equalities;
mod explain;
mod fields;
mod inlist;
mod known;
mod matches;
mod near;
mod normal;
mod parse;
mod parse_field;
mod pred;
mod schema;
mod schema_encrypt;
mod schema_parse;
mod seed;
mod text;
mod types;
mod why;
mod why_schema;

use std::sync::Arc;

use nagi_bson::ValueBuf;

use crate::collation::{self, Collation};
pub use crate::compare_op::CompareOp;
use crate::expr::MetaSet;
use crate::geo::{GeoNear, GeoTest};
use crate::path::FieldPath;
use crate::regex::Pattern;

pub use bits::{BitTest, Bits};
pub use elem::{ExprFilter, WhereFilter};
pub use encrypted_fields::EncryptedFields;
pub use equalities::ExprEquality;
pub use inlist::InList;
pub use known::Known;
pub use matches::{MatchCx, MatchInfo};
pub use parse::Allowed;
pub use schema::Schema;
pub use seed::{Equality, Seed};
pub use text::TextFilter;
pub use types::TypeSet;
pub use why::why_not;

/// A condition on documents.
#[derive(Debug, Clone)]
pub enum Filter {
    AlwaysTrue,
    AlwaysFalse,
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Nor(Vec<Filter>),
    Not(Box<Filter>),
    /// Some value that `path` yields satisfies `pred`.
    Field {
        path: FieldPath,
        pred: Pred,
    },
    /// An aggregation expression is true of the document.
    Expr(Box<ExprFilter>),
    /// The document is valid under a `$jsonSchema`.
    Schema(Box<Schema>),
    /// A search in the text index finds the document.
    Text(Arc<TextFilter>),
    /// A function in JavaScript is true of the document.
    Where(Box<WhereFilter>),
}

/// A condition on one value.
#[derive(Debug, Clone)]
pub enum Pred {
    Compare {
        op: CompareOp,
        value: ValueBuf,
        /// How strings compare; none by their bytes.
        collation: Option<&'static Collation>,
    },
    In(InList),
    /// The value is not missing.
    Exists,
    Type(TypeSet),
    Regex(Pattern),
    Mod {
        divisor: i64,
        remainder: i64,
    },
    /// An array of exactly this many elements.
    Size(i64),
    Bits(Bits),
    /// A geometry within or across a region.
    Geo(GeoTest),
    /// A geometry at some distance; the plan yields the nearest first.
    Near(GeoNear),
    /// An array one of whose documents (or arrays, as documents) matches.
    ElemMatchObject(Box<Filter>),
    /// An array one of whose elements satisfies all conditions; their paths are
    /// [`FieldPath::root`].
    ElemMatchValue(Box<Filter>),
}

impl Filter {
    /// Whether any part is an `$expr` (which some statements refuse).
    pub fn contains_expr(&self) -> bool {
        match self {
            Filter::Expr(_) => true,
            Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
                all.iter().any(Filter::contains_expr)
            }
            Filter::Not(inner) => inner.contains_expr(),
            _ => false,
        }
    }

    /// The metadata that looking for what matches leaves with it.
    pub fn metas(&self) -> MetaSet {
        match self.text() {
            Some(_) => MetaSet::TEXT,
            None if self.near().is_some() => MetaSet::GEO,
            None => MetaSet::NONE,
        }
    }

    /// The `_id` a filter fixes when it is nothing but `{_id: <value>}`, where ids compare as `own`
    /// says.
    pub fn exact_id(&self, own: Option<&'static Collation>) -> Option<&ValueBuf> {
        match self {
            Filter::Field { path, pred: Pred::Compare { op: CompareOp::Eq, value, collation } }
                if path.as_str() == "_id"
                    && (*collation == own || !collation::has_text(value.value())) =>
            {
                Some(value)
            }
            Filter::And(all) if all.len() == 1 => all[0].exact_id(own),
            _ => None,
        }
    }

    /// Calls `visit` with the path of every leaf.
    pub fn for_each_path<'s>(&'s self, visit: &mut dyn FnMut(&'s FieldPath)) {
        match self {
            Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
                all.iter().for_each(|part| part.for_each_path(visit));
            }
            Filter::Not(inner) => inner.for_each_path(visit),
            Filter::Field { path, .. } => visit(path),
            _ => {}
        }
    }
}
