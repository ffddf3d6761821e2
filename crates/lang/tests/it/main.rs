//! Integration tests of the document language: golden text cases, and recorded answers.

mod bounded;
mod cost;
mod differential;
mod golden_accum;
mod golden_docs;
mod golden_expr;
mod hostile;
mod known;
mod pipeline;
mod properties;
mod recorded;
