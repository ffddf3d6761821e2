//! `$expr` inside a filter.

use nagi_bson::ValueBuf;
use nagi_error::Result;

use super::MatchCx;
use crate::expr::{Eval, Expr};

/// A parsed expression with the text it came from (for explain).
#[derive(Clone)]
pub struct ExprFilter {
    pub expr: std::sync::Arc<Expr>,
    pub source: ValueBuf,
}

impl ExprFilter {
    /// Whether the expression is true of `doc`.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn matches<'a>(&'a self, doc: nagi_bson::Doc<'a>, cx: &MatchCx<'a>) -> Result<bool> {
        let eval = Eval::new(doc, cx.vars, cx.arena, cx.now_ms);
        Ok(self.expr.eval(&eval)?.is_truthy())
    }
}

impl std::fmt::Debug for ExprFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "$expr {:?}", self.source)
    }
}
