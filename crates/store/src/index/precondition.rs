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
    /// other operator.
    pub(crate) fn partial(
        doc: Doc<'_>,
        collation: Option<&'static Collation>,
    ) -> Result<Precondition> {
        let filter = Filter::parse(doc, &mut ParseCx::new().collated(collation))?;
        if !fits_partial(&filter) || says_always(doc) {
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

fn fits_partial(filter: &Filter) -> bool {
    match filter {
        Filter::AlwaysTrue => true,
        Filter::And(parts) | Filter::Or(parts) => parts.iter().all(fits_partial),
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

impl Index {
    /// The condition under which a partial index contains a document; none for other indexes.
    pub fn partial_filter(&self) -> Option<&Filter> {
        self.partial.as_ref().map(|condition| &condition.filter)
    }

    /// Returns true if the index contains keys of the document, according to its partial filter.
    pub(crate) fn covers(&self, doc: Doc<'_>) -> Result<bool> {
        self.partial.as_ref().map_or(Ok(true), |condition| condition.matches(doc))
    }
}
