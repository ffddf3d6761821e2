//! Filters of the catalog: preconditions of partial indexes, and validators.

use bumpalo::Bump;
use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::Collation,
    expr::{ParseCx, Vars},
    filter::{Filter, MatchCx, Pred},
};

use crate::{clock, index::Index};

/// A parsed filter, which is kept as long as the catalog version.
#[derive(Debug, Clone)]
pub(crate) struct Precondition {
    pub(crate) filter: Filter,
}

impl Precondition {
    /// A validator: any filter except those that need an index or a script.
    pub(crate) fn validator(
        doc: Doc<'_>,
        collation: Option<&'static Collation>,
    ) -> Result<Precondition> {
        for operator in ["$text", "$where", "$near", "$nearSphere", "$geoNear"] {
            if mentions(Value::Doc(doc), operator) {
                bail!(Code::BAD_VALUE, "{operator} is not allowed in this context");
            }
        }
        if mentions(Value::Doc(doc), "$function") {
            bail!(Code::Location(4660800), "$function cannot be used inside a validator.");
        }
        let filter = Filter::parse(doc, &mut ParseCx::new().collated(collation))?;
        Ok(Precondition { filter: filter.normalize() })
    }

    /// The filter of a partial index: equality, ranges, `$exists: true`, `$type`, `$in`, `$and`, `$or`; 67 for any
    /// other operator. That of the buckets of a time series may have negations, too.
    pub(crate) fn partial(
        doc: Doc<'_>,
        collation: Option<&'static Collation>,
        of_buckets: bool,
    ) -> Result<Precondition> {
        let filter = Filter::parse(doc, &mut ParseCx::new().collated(collation))?;
        if !fits_partial(&filter, of_buckets) || says_always(doc) {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "unsupported expression in partial index: {}",
                nagi_bson::text::doc_text(doc)
            );
        }
        Ok(Precondition { filter: filter.normalize() })
    }

    pub(crate) fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        let arena = Bump::new();
        let vars = Vars::EMPTY;
        let now_ms = if self.filter.contains_expr() { clock::now_ms() } else { 0 };
        self.filter.matches(doc, &MatchCx::new(&vars, &arena, now_ms))
    }
}

fn fits_partial(filter: &Filter, of_buckets: bool) -> bool {
    match filter {
        Filter::AlwaysTrue => true,
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter().all(|part| fits_partial(part, of_buckets))
        }
        Filter::Nor(parts) => of_buckets && parts.iter().all(|part| fits_partial(part, true)),
        Filter::Not(inner) => of_buckets && fits_partial(inner, true),
        Filter::Field { pred, .. } => match pred {
            Pred::Compare { .. } | Pred::Exists | Pred::Type(_) => true,
            Pred::In(list) => list.patterns().is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// Returns true if it contains `$alwaysTrue`, which the parsed filter does not distinguish from an empty document.
fn says_always(doc: Doc<'_>) -> bool {
    doc.iter().any(|element| match (element.name(), element.value()) {
        ("$alwaysTrue", _) => true,
        ("$and" | "$or", Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.as_doc()).any(says_always)
        }
        _ => false,
    })
}

/// Returns true if a field of this name occurs anywhere.
fn mentions(value: Value<'_>, name: &str) -> bool {
    match value {
        Value::Doc(doc) => doc.iter().any(|e| e.name() == name || mentions(e.value(), name)),
        Value::Array(items) => items.iter().any(|item| mentions(item, name)),
        _ => false,
    }
}

/// What the paths of a condition on measurements begin with, where a condition is on buckets otherwise.
const GIVEN: &str = "data.";

/// A condition on the measurements of a bucket, as a plan is given it: with `data.` before each path. None for
/// conditions that no index of buckets could use.
pub fn given(filter: &Filter) -> Option<Filter> {
    filter.renamed(&mut |path, _| Some(format!("{GIVEN}{path}")))
}

impl Index {
    /// For a partial index on the buckets of a time series: what must be known of the measurements that are searched
    /// for, so that their buckets are in the index.
    pub fn given_filter(&self) -> Option<&Filter> {
        self.given.as_ref()
    }

    /// The condition under which a partial index contains a document; none for other indexes.
    pub fn partial_filter(&self) -> Option<&Filter> {
        self.partial.as_ref().map(|condition| &condition.filter)
    }

    /// Returns true if the index contains keys of the document, according to its partial filter.
    pub(crate) fn covers(&self, doc: Doc<'_>) -> Result<bool> {
        self.partial.as_ref().map_or(Ok(true), |condition| condition.matches(doc))
    }
}
