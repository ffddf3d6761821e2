//! Derives comparisons from an expression: conditions on a document's values that hold wherever the expression is
//! true. The planner uses them for the bounds of index scans.
//!
//! ```text
//!   {$and: [{$eq: ["$a", 5]}, {$lt: ["$$v", "$b.c"]}, {$gt: ["$x", "$y"]}]}
//!     a = 5
//!     b.c > the value of $$v
//!     nothing for x and y: neither side is fixed
//! ```
//!
//! The comparisons are necessary, not sufficient: the expression itself is still evaluated for every document found.

use bumpalo::Bump;
use nagi_bson::{Doc, Value};

use super::{Eval, Expr, ExprPath, Variable, Vars};
use crate::{collation::Collation, compare_op::CompareOp};

/// How an expression combines its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
}

impl Logic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Logic::And => "$and",
            Logic::Or => "$or",
        }
    }
}

/// How a path's value relates to another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Is(CompareOp),
    /// The path's value is an element of the other value.
    In,
}

/// A comparison of a path's value with a value that is the same for every document of the request. It follows the
/// rules of expressions: the order covers all types, a missing value sorts below all others, and an array compares as
/// a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'e> {
    pub(crate) path: &'e ExprPath,
    pub(crate) relation: Relation,
    pub(crate) operand: &'e Expr,
    pub(crate) collation: Option<&'static Collation>,
}

impl Comparison<'_> {
    /// The value that the path's value is compared with; none if its computation fails.
    pub(crate) fn value<'a>(
        &'a self,
        vars: &'a Vars<'a>,
        now_ms: i64,
        arena: &'a Bump,
    ) -> Option<Value<'a>> {
        self.operand.fixed_value(self.collation, vars, now_ms, arena)
    }
}

impl Expr {
    /// The value of an expression that does not depend on the document; none if its computation fails.
    pub(crate) fn fixed_value<'a>(
        &'a self,
        collation: Option<&'static Collation>,
        vars: &'a Vars<'a>,
        now_ms: i64,
        arena: &'a Bump,
    ) -> Option<Value<'a>> {
        let cx = Eval { collation, ..Eval::new(Doc::EMPTY, vars, arena, now_ms) };
        self.eval(&cx).ok()
    }

    /// The operands of an `$and` or an `$or`.
    pub(crate) fn operands(&self) -> Option<(Logic, &[Expr])> {
        match self {
            Expr::Form(form) => form.operands(),
            _ => None,
        }
    }

    /// Calls `visit` with comparisons that hold for every document for which the expression is true.
    pub(crate) fn comparisons<'e>(
        &'e self,
        collation: Option<&'static Collation>,
        visit: &mut dyn FnMut(Comparison<'e>),
    ) {
        match self {
            Expr::Form(form) => {
                if let Some((parts, own)) = form.conjuncts() {
                    parts.iter().for_each(|part| part.comparisons(own.or(collation), visit));
                }
            }
            Expr::Call(operator, args) => {
                // The order is total: a value that is not below another is equal to it or above it.
                let (operator, args, negated) = match (operator.name, &**args) {
                    ("$not", [Expr::Call(inner, args)]) => (inner, args, true),
                    _ => (operator, args, false),
                };
                let [left, right] = &**args else { return };
                let Some(relation) = relation(operator.name) else { return };
                let Some(relation) = (if negated { contrary(relation) } else { Some(relation) })
                else {
                    return;
                };
                let found = match (left, right) {
                    (Expr::Path(path), operand) => Some((path, relation, operand)),
                    (operand, Expr::Path(path)) => {
                        turned(relation).map(|relation| (path, relation, operand))
                    }
                    _ => None,
                };
                if let Some((path, relation, operand)) = found.filter(|found| found.2.is_fixed()) {
                    visit(Comparison { path, relation, operand, collation });
                }
            }
            _ => {}
        }
    }

    /// Returns true if the expression has the same value for every document of a request.
    fn is_fixed(&self) -> bool {
        let pure = match self {
            Expr::Const(_) | Expr::Object(_) | Expr::Array(_) => true,
            Expr::Path(_) => false,
            Expr::Var(variable, _) => matches!(
                variable,
                Variable::Let(_)
                    | Variable::Now
                    | Variable::ClusterTime
                    | Variable::UserRoles
                    | Variable::Remove
            ),
            Expr::Call(operator, _) => operator.pure,
            Expr::Form(form) => form.is_pure(),
        };
        let mut fixed = pure;
        if pure {
            self.for_each_child(&mut |child| fixed &= child.is_fixed());
        }
        fixed
    }
}

fn relation(operator: &str) -> Option<Relation> {
    Some(match operator {
        "$eq" => Relation::Is(CompareOp::Eq),
        "$lt" => Relation::Is(CompareOp::Lt),
        "$lte" => Relation::Is(CompareOp::Lte),
        "$gt" => Relation::Is(CompareOp::Gt),
        "$gte" => Relation::Is(CompareOp::Gte),
        "$in" => Relation::In,
        _ => return None,
    })
}

/// The relation with its two operands exchanged.
fn turned(relation: Relation) -> Option<Relation> {
    Some(Relation::Is(match relation {
        Relation::Is(CompareOp::Eq) => CompareOp::Eq,
        Relation::Is(CompareOp::Lt) => CompareOp::Gt,
        Relation::Is(CompareOp::Lte) => CompareOp::Gte,
        Relation::Is(CompareOp::Gt) => CompareOp::Lt,
        Relation::Is(CompareOp::Gte) => CompareOp::Lte,
        Relation::In => return None,
    }))
}

/// The negation of a relation, if it covers one contiguous range of values.
fn contrary(relation: Relation) -> Option<Relation> {
    Some(Relation::Is(match relation {
        Relation::Is(CompareOp::Lt) => CompareOp::Gte,
        Relation::Is(CompareOp::Lte) => CompareOp::Gt,
        Relation::Is(CompareOp::Gt) => CompareOp::Lte,
        Relation::Is(CompareOp::Gte) => CompareOp::Lt,
        Relation::Is(CompareOp::Eq) | Relation::In => return None,
    }))
}
