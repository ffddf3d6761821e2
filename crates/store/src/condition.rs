//! Filters that belong to the catalog: of partial indexes and of validators.

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Error, Result, bail};
use nagi_lang::{
    collation::Collation,
    expr::{ParseCx, Vars},
    filter::{Filter, MatchCx, Pred, why_not},
};

use crate::{
    Collection, Index,
    catalog::{ValidationAction, ValidationLevel},
    clock,
};

/// A longer explanation of a failed validation is left out.
const DETAILS_BYTES_MAX: usize = 64 << 10;

/// A parsed filter, kept as long as the catalog version.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) filter: Filter,
}

impl Condition {
    /// A validator: any filter, but for what needs an index or a script.
    pub(crate) fn validator(
        doc: Doc<'_>,
        collation: Option<&'static Collation>,
    ) -> Result<Condition> {
        for operator in ["$text", "$where", "$near", "$nearSphere", "$geoNear"] {
            if mentions(Value::Doc(doc), operator) {
                bail!(Code::BAD_VALUE, "{operator} is not allowed in this context");
            }
        }
        if mentions(Value::Doc(doc), "$function") {
            bail!(Code::Location(4660800), "$function cannot be used inside a validator.");
        }
        let filter = Filter::parse(doc, &mut ParseCx::new().collated(collation))?;
        Ok(Condition { filter: filter.normalize() })
    }

    /// The filter of a partial index: equality, ranges, `$exists: true`, `$type`, `$in`, `$and`,
    /// `$or`; 67 for anything else.
    pub(crate) fn partial(
        doc: Doc<'_>,
        collation: Option<&'static Collation>,
    ) -> Result<Condition> {
        let filter = Filter::parse(doc, &mut ParseCx::new().collated(collation))?;
        if !fits_partial(&filter) {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "unsupported expression in partial index: {}",
                nagi_bson::text::doc_text(doc)
            );
        }
        Ok(Condition { filter: filter.normalize() })
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

/// Whether a field of this name occurs anywhere.
fn mentions(value: Value<'_>, name: &str) -> bool {
    match value {
        Value::Doc(doc) => doc.iter().any(|e| e.name() == name || mentions(e.value(), name)),
        Value::Array(items) => items.iter().any(|item| mentions(item, name)),
        _ => false,
    }
}

impl Index {
    /// The condition under which a partial index has a document; none for other indexes.
    pub fn partial_filter(&self) -> Option<&Filter> {
        self.partial.as_ref().map(|condition| &condition.filter)
    }

    /// Whether the index has keys of the document, as far as its partial filter says.
    pub(crate) fn covers(&self, doc: Doc<'_>) -> Result<bool> {
        self.partial.as_ref().map_or(Ok(true), |condition| condition.matches(doc))
    }
}

impl Collection {
    /// Refuses (121), or logs, a document that the validator does not match.
    pub(crate) fn check_valid(&self, doc: Doc<'_>) -> Result<()> {
        let Some(validator) = &self.validator else { return Ok(()) };
        if self.options.validation_level == ValidationLevel::Off || validator.matches(doc)? {
            return Ok(());
        }
        if self.options.validation_action == ValidationAction::Warn {
            log::warn!(target: "STORAGE", id = 20294, namespace = self.namespace.as_str();
                "Document would fail validation");
            return Ok(());
        }
        Err(self.invalid(doc))
    }

    /// As `check_valid`; with level "moderate", documents that were not valid before may stay so.
    pub(crate) fn check_valid_update(&self, old: Doc<'_>, new: Doc<'_>) -> Result<()> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let lenient = self.options.validation_level == ValidationLevel::Moderate;
        if lenient && !validator.matches(old)? {
            return Ok(());
        }
        self.check_valid(new)
    }

    #[cold]
    fn invalid(&self, doc: Doc<'_>) -> Error {
        let validator = self.options.validator.as_ref().map_or(Doc::EMPTY, |v| v.as_doc());
        let mut details = DocBuf::build(|w| why_not(validator, doc, clock::now_ms(), w));
        if details.as_bytes().len() > DETAILS_BYTES_MAX {
            details = nagi_bson::doc! { "reason": "the explanation is too large to be shown" };
        }
        let info = DocBuf::build(|w| {
            w.doc("errInfo", |w| {
                w.put("failingDocumentId", doc.get("_id"));
                w.put("details", &details);
            });
        });
        Error::new(Code::DOCUMENT_VALIDATION_FAILURE, "Document failed validation").with_info(info)
    }
}
