//! Constant folding: what no document can change is computed when parsing.
//!
//! A subtree that fails on constants fails the whole request, even where no document would reach it:
//! `{$divide: [1, 0]}` in a branch never taken is an error, as in MongoDB.

use bumpalo::Bump;
use nagi_bson::{Doc, ValueBuf};
use nagi_error::Result;

use super::{Eval, Expr, Vars};
use crate::collation::Collation;

/// Replaces subtrees that are constant by their values.
pub(super) fn fold(expr: &mut Expr, collation: Option<&'static Collation>) -> Result<()> {
    expr.for_each_child_mut(&mut |child| fold(child, collation))?;
    if is_foldable(expr) {
        let arena = Bump::new();
        let vars = Vars::EMPTY;
        let cx = Eval { collation, ..Eval::new(Doc::EMPTY, &vars, &arena, 0) };
        let value = ValueBuf::new(expr.eval(&cx)?);
        *expr = Expr::Const(value);
    }
    Ok(())
}

fn is_foldable(expr: &Expr) -> bool {
    let pure = match expr {
        Expr::Const(_) | Expr::Path(_) | Expr::Var(..) => return false,
        Expr::Object(_) | Expr::Array(_) => true,
        Expr::Call(operator, _) => operator.pure,
        Expr::Form(form) => form.is_pure(),
    };
    let mut constant = pure;
    if pure {
        expr.for_each_child(&mut |child| constant &= matches!(child, Expr::Const(_)));
    }
    constant
}
