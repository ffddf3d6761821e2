//! Text search: what words a document has, what they weigh, and whether a search finds it.
//!
//!   a string -> words -> folded, stop words dropped, stemmed -> terms      (`tokens`, `fold`)
//!   a document -> its indexed strings, each in its language -> scores      (`spec`, `score`)
//!   `$search`  -> terms, phrases, negations -> whether a document matches  (`search`, `found`)
//!
//! An index holds the terms with their scores, so the same code makes keys and answers searches: a
//! change of what it yields is a change of a stored format (see `docs/format.md`).
//!
//! Does not know about: indexes, records, plans.

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
