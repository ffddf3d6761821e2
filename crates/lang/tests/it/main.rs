//! Integration tests of the document language: golden text cases, and recorded answers.

mod golden_expr;
mod known;
mod pipeline;
mod recorded;
