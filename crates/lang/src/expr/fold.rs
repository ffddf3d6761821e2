//! Constant folding: subtrees that do not depend on the document are evaluated at parse time.
//!
//! A subtree whose folding fails makes the whole request fail, even if no document reaches it: `{$divide: [1, 0]}` in
//! a branch that is never taken is an error, as in MongoDB.
//!
//! A subtree stays unfolded if its result would be large or its evaluation long. A plan would keep the result in
//! memory, and only a running request has a memory limit and can be interrupted.

use std::cell::Cell;

use bumpalo::Bump;
use nagi_bson::{Doc, ValueBuf};
use nagi_error::{Code, Result, bail};

use super::{Eval, Expr, Pace, Vars};
use crate::collation::Collation;

/// The maximal total size in bytes of computed constants that one parse keeps, beside the constants in the request.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// The maximal number of loop iterations at parse time.
const STEPS_MAX: u32 = 10_000;

/// Replaces constant subtrees by their values. `kept` counts the bytes of the computed values.
pub(super) fn fold(
    expr: &mut Expr,
    collation: Option<&'static Collation>,
    kept: &mut usize,
) -> Result<()> {
    folded(expr, collation, kept).map(|_| ())
}

/// Returns true if any value in the subtree was computed and not written by the client.
fn folded(
    expr: &mut Expr,
    collation: Option<&'static Collation>,
    kept: &mut usize,
) -> Result<bool> {
    let mut computed = false;
    expr.for_each_child_mut(&mut |child| {
        computed |= folded(child, collation, kept)?;
        Ok(())
    })?;
    if !is_foldable(expr) {
        super::ops::prepare_subset(expr)?;
        return Ok(computed);
    }
    // A literal is as long as its text in the request, so its size is not limited here.
    let is_literal = !computed && matches!(expr, Expr::Object(_) | Expr::Array(_));
    let left = if is_literal { usize::MAX } else { KEPT_BYTES_MAX.saturating_sub(*kept) };
    let (arena, small) = (Bump::new(), Small { left, ..Small::default() });
    let vars = Vars::EMPTY.with_pace(&small);
    let cx = Eval { collation, ..Eval::new(Doc::EMPTY, &vars, &arena, 0) };
    let value = match expr.eval(&cx) {
        Err(_) if small.is_exceeded.get() => return Ok(true),
        value => ValueBuf::new(value?),
    };
    let bytes = value.heap_bytes();
    if bytes > left {
        return Ok(true);
    }
    if !is_literal {
        *kept += bytes;
    }
    *expr = Expr::Const(value);
    Ok(!is_literal)
}

/// Makes an evaluation fail that would build a large value or take long, and records that it did so.
#[derive(Debug, Default)]
struct Small {
    left: usize,
    steps: Cell<u32>,
    is_exceeded: Cell<bool>,
}

impl Small {
    fn end(&self) -> Result<()> {
        self.is_exceeded.set(true);
        bail!(Code::EXCEEDED_MEMORY_LIMIT, "too large or too long to be kept with a plan")
    }
}

impl Pace for Small {
    fn step(&self) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX { self.end() } else { Ok(()) }
    }

    fn check_memory(&self, more: usize) -> Result<()> {
        if more > self.left { self.end() } else { Ok(()) }
    }
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
