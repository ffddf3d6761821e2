//! Equalities that a filter asks of documents by `$expr`: what a join may look up in a table.
//!
//! ```text
//!   {g: 2, $expr: {$and: [{$eq: ["$f", "$$v"]}, {$lt: ["$h", 3]}]}}       $f equals $$v
//! ```

use bumpalo::Bump;
use nagi_bson::Value;

use super::{CompareOp, Filter};
use crate::{
    collation::Collation,
    expr::{Eval, Expr, ExprPath, Relation, Vars},
};

/// Of every document that the filter matches, the value of `path` equals a value that no document changes, by
/// the rules of expressions: arrays as wholes, and what is missing equals no null.
#[derive(Debug, Clone)]
pub struct ExprEquality {
    path: ExprPath,
    operand: Expr,
    collation: Option<&'static Collation>,
}

impl Filter {
    /// The equalities that hold of every document that it matches, one for a path.
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
    /// Whether the operand is the same for every request, so that it has no variables.
    pub fn is_constant(&self) -> bool {
        matches!(self.operand, Expr::Const(_))
    }

    /// How strings compare; none by their bytes.
    pub fn collation(&self) -> Option<&'static Collation> {
        self.collation
    }

    /// The value that the path of a document has.
    pub fn of_doc<'a>(&self, eval: &Eval<'a>) -> Value<'a> {
        self.path.of_doc(eval.root, eval)
    }

    /// The value that it is to equal; none if it cannot be computed.
    pub fn operand<'a>(
        &'a self,
        vars: &'a Vars<'a>,
        now_ms: i64,
        arena: &'a Bump,
    ) -> Option<Value<'a>> {
        self.operand.fixed_value(self.collation, vars, now_ms, arena)
    }
}
