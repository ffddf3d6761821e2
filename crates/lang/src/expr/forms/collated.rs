//! An expression that sets the collation of its evaluation: all string comparisons below it use that collation.
//!
//! It is not an operator. The parser wraps each expression of an operation that has a collation, so that an
//! expression of an operation without one has no cost.

use super::Form;
use crate::collation::Collation;
use crate::expr::{Eval, Expr};
use nagi_bson::Value;
use nagi_error::Result;

/// An expression and its collation.
#[derive(Debug, Clone)]
pub struct Collated {
    pub(super) collation: &'static Collation,
    pub(super) expr: Expr,
}

/// Wraps an expression if it contains an operator, which may compare strings.
pub(in crate::expr) fn collated(expr: Expr, collation: &'static Collation) -> Expr {
    if !has_operator(&expr) {
        return expr;
    }
    Expr::Form(Box::new(Form::Collated(Collated { collation, expr })))
}

fn has_operator(expr: &Expr) -> bool {
    let mut found = matches!(expr, Expr::Call(..) | Expr::Form(_));
    expr.for_each_child(&mut |child| found |= has_operator(child));
    found
}

impl Collated {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        self.expr.eval(&Eval { collation: Some(self.collation), ..*cx })
    }
}
