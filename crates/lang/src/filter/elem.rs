//! The nodes of `$expr` and `$where` in a filter.

use nagi_bson::ValueBuf;
use nagi_error::{Code, Result, err};

use super::MatchCx;
use crate::expr::{Eval, Expr};
use crate::script::Function;

/// A parsed expression and its source, which explain outputs.
#[derive(Clone)]
pub struct ExprFilter {
    pub expr: std::sync::Arc<Expr>,
    pub source: ValueBuf,
    /// The comparisons that hold for every matching document; empty before [`super::Filter::with_known`].
    pub known: Vec<super::Known>,
}

impl ExprFilter {
    /// Returns true if the expression is true for `doc`.
    ///
    /// # Errors
    /// The errors of the expression.
    pub fn matches<'a>(&'a self, doc: nagi_bson::Doc<'a>, cx: &MatchCx<'a>) -> Result<bool> {
        let mut eval = Eval::new(doc, cx.vars, cx.arena, cx.now_ms);
        eval.meta = cx.meta;
        Ok(self.expr.eval(&eval)?.is_truthy())
    }
}

impl std::fmt::Debug for ExprFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "$expr {:?}", self.source)
    }
}

/// A JavaScript function and its source, which explain outputs.
#[derive(Debug, Clone)]
pub struct WhereFilter {
    pub(super) function: std::sync::Arc<Function>,
    pub(super) source: ValueBuf,
}

impl WhereFilter {
    /// Returns true if the function returns true for `doc`.
    pub(super) fn matches(&self, doc: nagi_bson::Doc<'_>, cx: &MatchCx<'_>) -> Result<bool> {
        match cx.vars.scripts {
            Some(scripts) => scripts.test(&self.function, doc),
            None => Err(err!(Code::BAD_VALUE, "no globalScriptEngine in $where parsing")),
        }
    }
}
