//! Matching of a document against a text search.

use nagi_bson::Doc;
use nagi_error::Result;
use std::{collections::BTreeSet, sync::Arc};

use super::{
    Search, Sensitivity, TextSpec,
    tokens::{Terms, words},
};

/// A search and the specification of its index.
#[derive(Debug, Clone)]
pub struct Bound {
    pub spec: Arc<TextSpec>,
    pub search: Search,
}

impl Bound {
    /// Returns true if `doc` matches. It does not use the index.
    ///
    /// # Errors
    /// 17261 and 17262 for invalid languages in the document.
    pub fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        let folded = Sensitivity::default();
        Ok(self.has_any(doc, &self.search.terms, folded)? && self.verify(doc)?)
    }

    /// The score of `doc`: the sum over all terms of the search.
    ///
    /// # Errors
    /// 17261 and 17262 for invalid languages in the document.
    pub fn score(&self, doc: Doc<'_>) -> Result<f64> {
        let mut scores = super::Scores::default();
        scores.of(&self.spec, doc)?;
        Ok(self.search.terms.iter().filter_map(|term| scores.get(term)).sum())
    }

    /// Returns true if [`Bound::verify`] has conditions to check.
    pub fn needs_verifying(&self) -> bool {
        let search = &self.search;
        self.is_told_apart()
            || !search.negated_terms.is_empty()
            || !search.phrases.is_empty()
            || !search.negated_phrases.is_empty()
    }

    /// Returns true if `doc`, which contains some of the terms, satisfies all other conditions of the search.
    ///
    /// # Errors
    /// 17261 and 17262 for invalid languages in the document.
    pub fn verify(&self, doc: Doc<'_>) -> Result<bool> {
        let search = &self.search;
        if self.is_told_apart() && !self.has_any(doc, &search.wanted, search.sensitivity)? {
            return Ok(false);
        }
        if !search.negated_terms.is_empty()
            && self.has_any(doc, &search.negated_terms, search.sensitivity)?
        {
            return Ok(false);
        }
        for phrase in &search.phrases {
            if !self.has_phrase(doc, phrase)? {
                return Ok(false);
            }
        }
        for phrase in &search.negated_phrases {
            if self.has_phrase(doc, phrase)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the search distinguishes more than the index: case, or diacritics.
    fn is_told_apart(&self) -> bool {
        let told = self.search.sensitivity;
        told.case || (told.diacritic && self.spec.version >= 3)
    }

    fn has_any(
        &self,
        doc: Doc<'_>,
        wanted: &BTreeSet<String>,
        sensitivity: Sensitivity,
    ) -> Result<bool> {
        let mut found = false;
        self.spec.for_each(doc, &mut |indexed| {
            let language = indexed.language;
            let mut terms = Terms::new(language, self.spec.version, sensitivity);
            found = words(indexed.text, language)
                .any(|word| terms.term(word).is_some_and(|term| wanted.contains(term)));
            !found
        })?;
        Ok(found)
    }

    fn has_phrase(&self, doc: Doc<'_>, phrase: &str) -> Result<bool> {
        let search = &self.search;
        let terms = Terms::new(search.language, self.spec.version, search.sensitivity);
        let (mut wanted, mut text) = (String::new(), String::new());
        terms.flatten(phrase, &mut wanted);
        let mut found = false;
        self.spec.for_each(doc, &mut |indexed| {
            text.clear();
            terms.flatten(indexed.text, &mut text);
            found = text.contains(&*wanted);
            !found
        })?;
        Ok(found)
    }
}
