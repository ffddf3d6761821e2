//! Text search: the terms of a document, their scores, and the matching of a document against a search.
//!
//! ```text
//!   a string   -> words -> case folded, stop words removed, stemmed -> terms    (tokens, fold, language)
//!   a document -> its indexed strings, each with its language -> scores        (spec, score)
//!   $search    -> terms, phrases, negations -> does a document match?          (search, found)
//! ```
//!
//! A text index stores the terms with their scores, so the same code creates the keys and answers searches. A change
//! of its results is therefore a change of a stored format (see `docs/format.md`).
//!
//! This module does not know indexes, records or plans.

mod fold;
mod found;
mod language;
mod score;
mod search;
mod spec;
mod stop_words;
mod tokens;

pub use found::Bound;
pub use language::Language;
pub use score::Scores;
pub use search::Search;
pub use spec::TextSpec;
pub use tokens::Sensitivity;
