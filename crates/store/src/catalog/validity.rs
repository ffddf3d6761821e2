//! Validation of documents: by the validator and the encrypted fields.

use nagi_bson::{Doc, DocBuf, DocWriter};
use nagi_error::{Code, Error, Result};
use nagi_lang::filter::why_not;

use super::{Collection, ValidationAction, ValidationLevel};
use crate::clock;

/// A longer explanation of a failed validation is omitted.
const DETAILS_BYTES_MAX: usize = 64 << 10;

impl Collection {
    /// Refuses (121), or logs, a document that does not match the validator, or that has plain values in encrypted
    /// fields.
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

    /// Like `check_valid`; with level "moderate", documents that were invalid before may stay invalid.
    pub(crate) fn check_valid_update(&self, old: Doc<'_>, new: Doc<'_>) -> Result<()> {
        let lenient = self.options.validation_level == ValidationLevel::Moderate;
        if lenient && !self.is_valid(old)? {
            return Ok(());
        }
        self.check_valid(new)
    }

    /// Whether a stored document would be accepted. One for which the validator fails is not.
    pub(crate) fn is_valid_now(&self, doc: Doc<'_>) -> bool {
        self.options.validation_level == ValidationLevel::Off || self.is_valid(doc).unwrap_or(false)
    }

    fn is_valid(&self, doc: Doc<'_>) -> Result<bool> {
        Ok(self.has_encrypted(doc)
            && self.validator.as_ref().map_or(Ok(true), |v| v.matches(doc))?)
    }

    /// Returns true if the values of all encrypted fields are encrypted.
    fn has_encrypted(&self, doc: Doc<'_>) -> bool {
        self.options.encrypted_fields.as_ref().is_none_or(|fields| fields.hold(doc))
    }

    /// Writes why the document is invalid: because of the validator, the encrypted fields, or both.
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
