//! Filters that belong to the catalog: of partial indexes and of validators.

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, DocWriter, Value};
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
        if !fits_partial(&filter) || says_always(doc) {
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

/// Whether `$alwaysTrue` stands in it, which the parsed filter does not tell from an empty document.
fn says_always(doc: Doc<'_>) -> bool {
    doc.iter().any(|element| match (element.name(), element.value()) {
        ("$alwaysTrue", _) => true,
        ("$and" | "$or", Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.as_doc()).any(says_always)
        }
        _ => false,
    })
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
    /// Refuses (121), or logs, a document that the validator does not match, or that has plain values in
    /// encrypted fields.
    pub(crate) fn check_valid(&self, doc: Doc<'_>) -> Result<()> {
        if self.options.validation_level == ValidationLevel::Off || self.is_valid(doc)? {
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
        let lenient = self.options.validation_level == ValidationLevel::Moderate;
        if lenient && !self.is_valid(old)? {
            return Ok(());
        }
        self.check_valid(new)
    }

    fn is_valid(&self, doc: Doc<'_>) -> Result<bool> {
        Ok(self.has_encrypted(doc)
            && self.validator.as_ref().map_or(Ok(true), |v| v.matches(doc))?)
    }

    /// Whether the values of all encrypted fields are encrypted.
    fn has_encrypted(&self, doc: Doc<'_>) -> bool {
        self.options.encrypted_fields.as_ref().is_none_or(|fields| fields.hold(doc))
    }

    /// Why the document is not valid: by the validator, by the encrypted fields, or by both.
    fn why_invalid(&self, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        let explicit = self.options.validator.as_ref().map(|v| v.as_doc());
        let Some(fields) = &self.options.encrypted_fields else {
            return why_not(explicit.unwrap_or(Doc::EMPTY), doc, clock::now_ms(), out);
        };
        let Some(explicit) = explicit else { return fields.explain(doc, out) };
        let holds = self.validator.as_ref().is_some_and(|v| v.matches(doc).unwrap_or(false));
        out.put("operatorName", "$and");
        out.array("clausesNotSatisfied", |list| {
            if !holds {
                list.doc(|clause| {
                    clause.put("index", 0);
                    clause.doc("details", |out| why_not(explicit, doc, clock::now_ms(), out));
                });
            }
            if !fields.hold(doc) {
                list.doc(|clause| {
                    clause.put("index", 1);
                    clause.doc("details", |out| fields.explain(doc, out));
                });
            }
        });
    }

    #[cold]
    fn invalid(&self, doc: Doc<'_>) -> Error {
        let mut details = DocBuf::build(|w| self.why_invalid(doc, w));
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
