//! Filters over the server's own lists: collections, databases, operations.

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::expr::Vars;
use nagi_lang::filter::{Filter, MatchCx};

use crate::clock;

/// Returns true if `doc` matches; without a filter every document matches.
pub(crate) fn matches(filter: Option<&Filter>, doc: Doc<'_>) -> Result<bool> {
    let Some(filter) = filter else { return Ok(true) };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    filter.matches(doc, &MatchCx::new(&vars, &arena, clock::wall_ms()))
}
