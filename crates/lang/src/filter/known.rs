//! What is known of the values of documents that an `$expr` matches, once its variables have values.

use bumpalo::Bump;
use nagi_bson::ValueBuf;

use super::{ExprFilter, Filter};
use crate::{
    collation::Collation,
    expr::{Relation, Vars},
};

/// The value of a path relates so to `value`, in the order of expressions. MongoDB has predicates for it
/// (`$_internalExprEq` and its like); here it only leads to bounds, and the expression itself decides.
#[derive(Debug, Clone)]
pub struct Known {
    pub path: String,
    pub relation: Relation,
    pub value: ValueBuf,
    /// How strings compare; none by their bytes.
    pub collation: Option<&'static Collation>,
}

impl Filter {
    /// The same filter, each of whose `$expr` that a plan may use says what is known where it is true.
    #[must_use]
    pub fn with_known(&self, vars: &Vars<'_>, now_ms: i64) -> Filter {
        let all =
            |parts: &[Filter]| parts.iter().map(|part| part.with_known(vars, now_ms)).collect();
        match self {
            Filter::And(parts) => Filter::And(all(parts)),
            Filter::Or(parts) => Filter::Or(all(parts)),
            Filter::Expr(expr) => Filter::Expr(Box::new(expr.with_known(vars, now_ms))),
            other => other.clone(),
        }
    }
}

impl ExprFilter {
    fn with_known(&self, vars: &Vars<'_>, now_ms: i64) -> ExprFilter {
        let arena = Bump::new();
        let mut known = Vec::new();
        self.expr.comparisons(None, &mut |comparison| {
            if let Some(value) = comparison.value(vars, now_ms, &arena) {
                known.push(Known {
                    path: comparison.path.dotted(),
                    relation: comparison.relation,
                    value: ValueBuf::new(value),
                    collation: comparison.collation,
                });
            }
        });
        ExprFilter { known, ..self.clone() }
    }
}
