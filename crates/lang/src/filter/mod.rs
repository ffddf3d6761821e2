//! Filters: the conditions by which `find`, `$match`, `update`, `delete` and partial indexes select documents.
//!
//! ```text
//!   Filter::parse --> tree of nodes --> normalize --> matches(document)
//! ```
//!
//! A leaf ([`Filter::Field`]) is a path and a predicate. It matches if the predicate is true for at least one of the
//! values that the path yields: a path that leads into an array yields the array and its elements. A negation is a
//! separate node around it (`$ne` is `Not(Compare)`), which gives MongoDB's meaning "no element equals" without
//! special cases.
//!
//! ```text
//!   {a: {$ne: 1}}  =  Not(Field { a, Compare Eq 1 })        on {a: [1, 2]}:  Eq is true for 1, so Not is false
//! ```
//!
//! Invariants
//! - `Filter` is a public enum, so that the planner can match on its nodes and derive index bounds.
//! - Normalization keeps the set of matching documents and the meaning of the positional `$`.
//! - Matching reads the bytes of the document. Comparisons do not allocate; `$expr`, `$where`, `$jsonSchema`, geometry
//!   and text search may.
//!
//! This module does not know indexes or collections, or from where a collation comes.

mod bits;
mod elem;
mod encrypted_fields;
mod encrypted_queries;
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
pub use encrypted_fields::{EncryptedBelow, EncryptedField, EncryptedFields, EncryptedStep};
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

/// The names of all operators of filters, sorted.
pub fn operator_names() -> Vec<&'static str> {
    let mut names: Vec<_> = parse::operator_names().chain(parse_field::operator_names()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A condition on documents.
#[derive(Debug, Clone)]
pub enum Filter {
    AlwaysTrue,
    AlwaysFalse,
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Nor(Vec<Filter>),
    Not(Box<Filter>),
    /// At least one value that `path` yields satisfies `pred`.
    Field {
        path: FieldPath,
        pred: Pred,
    },
    /// An aggregation expression is true for the document.
    Expr(Box<ExprFilter>),
    /// The document is valid under a `$jsonSchema`.
    Schema(Box<Schema>),
    /// A search in the text index finds the document.
    Text(Arc<TextFilter>),
    /// A JavaScript function returns true for the document.
    Where(Box<WhereFilter>),
    /// A condition on something that the document stands for, like the measurements in a bucket. Each document
    /// matches; only an index that knows how to read it makes use of it. No text means it.
    Given(Box<Filter>),
}

/// A condition on one value.
#[derive(Debug, Clone)]
pub enum Pred {
    Compare {
        op: CompareOp,
        value: ValueBuf,
        /// The collation of strings; without one, they compare by their bytes.
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
    /// An array with exactly this number of elements.
    Size(i64),
    Bits(Bits),
    /// A geometry within a region or intersecting it.
    Geo(GeoTest),
    /// A geometry within the given distances. The plan returns the nearest document first.
    Near(GeoNear),
    /// An array with an element that matches: a document, or an array taken as a document.
    ElemMatchObject(Box<Filter>),
    /// An array with an element that satisfies all conditions. The paths of the conditions are [`FieldPath::root`].
    ElemMatchValue(Box<Filter>),
}

impl Filter {
    /// Returns true if any part is an `$expr`, which some statements do not allow.
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

    /// The kinds of metadata that a plan for this filter attaches to the documents it finds.
    pub fn metas(&self) -> MetaSet {
        match self.text() {
            Some(_) => MetaSet::TEXT,
            None if self.near().is_some() => MetaSet::GEO,
            None => MetaSet::NONE,
        }
    }

    /// The value of `_id`, if the filter is only `{_id: <value>}`. `own` is the collation by which the collection
    /// compares `_id`s: the filter must compare in the same way.
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

    /// The condition with the names that `source` gives to paths; none if a path has no name, or if the condition may
    /// read other paths.
    pub fn renamed(&self, source: &mut dyn FnMut(&str, &Pred) -> Option<String>) -> Option<Filter> {
        let mut all = |parts: &[Filter]| -> Option<Vec<Filter>> {
            parts.iter().map(|part| part.renamed(source)).collect()
        };
        Some(match self {
            Filter::AlwaysTrue | Filter::AlwaysFalse => self.clone(),
            Filter::And(parts) => Filter::And(all(parts)?),
            Filter::Or(parts) => Filter::Or(all(parts)?),
            Filter::Nor(parts) => Filter::Nor(all(parts)?),
            Filter::Not(inner) => Filter::Not(Box::new(inner.renamed(source)?)),
            Filter::Field { path, pred } => {
                let name = source(path.as_str(), pred)?;
                Filter::Field { path: FieldPath::new(&name), pred: pred.clone() }
            }
            _ => return None,
        })
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
