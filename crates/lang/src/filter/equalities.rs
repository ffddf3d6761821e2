//! The equalities in the `$expr` conditions of a filter. A join uses them to look up documents in a hash table.
//!
//! ```text
//!   {g: 2, $expr: {$and: [{$eq: ["$f", "$$v"]}, {$lt: ["$h", 3]}]}}    gives    $f = $$v
//! ```

use bumpalo::Bump;
use nagi_bson::Value;

use super::{CompareOp, Filter};
use crate::{
    collation::Collation,
    expr::{Eval, Expr, ExprPath, Relation, Vars},
};

/// An equality that holds for every matching document: the value of `path` equals a value that is the same for all
/// documents. The comparison follows the rules of expressions: arrays compare as wholes, and a missing value does not
/// equal null.
#[derive(Debug, Clone)]
pub struct ExprEquality {
    path: ExprPath,
    operand: Expr,
    collation: Option<&'static Collation>,
}

impl Filter {
    /// The equalities that hold for every matching document, at most one per path.
    pub fn expr_equalities(&self) -> Vec<ExprEquality> {
        let mut out = Vec::new();
        self.add_equalities(&mut out);
        out
    }

    fn add_equalities(&self, out: &mut Vec<ExprEquality>) {
        match self {
            Filter::And(parts) => parts.iter().for_each(|part| part.add_equalities(out)),
            Filter::Expr(filter) => filter.expr.comparisons(None, &mut |found| {
                let known = out.iter().any(|other| other.path == *found.path);
                if found.relation == Relation::Is(CompareOp::Eq) && !known {
                    out.push(ExprEquality {
                        path: found.path.clone(),
                        operand: found.operand.clone(),
                        collation: found.collation,
                    });
                }
            }),
            _ => {}
        }
    }
}

impl ExprEquality {
    /// Returns true if the operand is a constant and so the same for every request.
    pub fn is_constant(&self) -> bool {
        matches!(self.operand, Expr::Const(_))
    }

    /// The collation of strings; without one, they compare by their bytes.
    pub fn collation(&self) -> Option<&'static Collation> {
        self.collation
    }

    /// The value of the path in a document.
    pub fn of_doc<'a>(&self, eval: &Eval<'a>) -> Value<'a> {
        self.path.of_doc(eval.root, eval)
    }

    /// The value of the other side; none if its computation fails.
    pub fn operand<'a>(
        &'a self,
        vars: &'a Vars<'a>,
        now_ms: i64,
        arena: &'a Bump,
    ) -> Option<Value<'a>> {
        self.operand.fixed_value(self.collation, vars, now_ms, arena)
    }
}
