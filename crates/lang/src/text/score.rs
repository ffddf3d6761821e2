//! The score of a document for each of its terms.
//!
//! For each indexed string with `n` terms, of which `k` are the given term:
//!
//! ```text
//!   weight * (1 + 1/2 + 1/4 + ... k summands) * (1/2 + k / 2n) * (1.1 if the string consists of the term alone)
//! ```
//!
//! The scores of the strings of a document are added.

use std::collections::HashMap;

use nagi_bson::Doc;
use nagi_error::Result;

use super::{
    Sensitivity, TextSpec,
    tokens::{Terms, words},
};

type Map<V> = HashMap<Box<str>, V, foldhash::fast::RandomState>;

/// The maximal number of terms of a document. With more, a text index would have too many keys.
const TERMS_MAX: usize = 100_000;

/// The factor for a string that consists of the term alone.
const ALONE: f64 = 1.1;

/// The terms of one document with their scores. It keeps its memory from document to document.
#[derive(Debug, Default)]
pub struct Scores {
    totals: Map<f64>,
    counts: Map<u32>,
}

impl Scores {
    /// Computes the terms of `doc`. If there are more than [`TERMS_MAX`], it stops soon after.
    ///
    /// # Errors
    /// 17261 and 17262 for invalid languages in the document.
    pub fn of(&mut self, spec: &TextSpec, doc: Doc<'_>) -> Result<()> {
        self.totals.clear();
        self.counts.clear();
        let mut terms: Option<Terms> = None;
        let mut last = None;
        spec.for_each(doc, &mut |indexed| {
            let language = indexed.language;
            if last != Some(language) {
                terms = Some(Terms::new(language, spec.version, Sensitivity::default()));
                last = Some(language);
            }
            let Some(terms) = &mut terms else { return true };
            let mut all = 0u32;
            for word in words(indexed.text, language) {
                if self.counts.len() > TERMS_MAX {
                    break;
                }
                let Some(term) = terms.term(word) else { continue };
                all += 1;
                match self.counts.get_mut(term) {
                    Some(count) => *count += 1,
                    None => {
                        self.counts.insert(term.into(), 1);
                    }
                }
            }
            for (term, count) in self.counts.drain() {
                let alone = term.len() == indexed.text.len();
                let score = indexed.weight * one(count, all) * if alone { ALONE } else { 1.0 };
                *self.totals.entry(term).or_default() += score;
            }
            self.totals.len() <= TERMS_MAX
        })
    }

    /// The terms and their scores, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.totals.iter().map(|(term, score)| (&**term, *score))
    }

    /// The number of terms.
    pub fn len(&self) -> usize {
        self.totals.len()
    }

    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }

    /// The score of a term.
    pub fn get(&self, term: &str) -> Option<f64> {
        self.totals.get(term).copied()
    }
}

/// The score, for weight 1, of a term that occurs `count` times among the `all` terms of a string.
fn one(count: u32, all: u32) -> f64 {
    let frequency: f64 = (0..count.min(64)).map(|at| 0.5f64.powi(at as i32)).sum();
    frequency * (0.5 * f64::from(count) / f64::from(all) + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_terms_count_half_each_time() {
        assert!((one(1, 3) - 2.0 / 3.0).abs() < 1e-15);
        assert!((one(2, 2) - 1.5).abs() < 1e-15);
        assert!((one(3, 4) - 1.75 * 0.875).abs() < 1e-15);
    }
}
