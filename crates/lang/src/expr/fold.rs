//! Constant folding: what no document can change is computed when parsing.
//!
//! A subtree that fails on constants fails the whole request, even where no document would reach it:
//! `{$divide: [1, 0]}` in a branch never taken is an error, as in MongoDB.
//!
//! What is large or takes long stays as it is written: a plan would keep it, and only a running request has a
//! limit and can be stopped.

use std::cell::Cell;

use bumpalo::Bump;
use nagi_bson::{Doc, ValueBuf};
use nagi_error::{Code, Result, bail};

use super::{Eval, Expr, Pace, Vars};
use crate::collation::Collation;

/// Bytes of computed constants that one parse keeps, beside those that were written.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Turns of loops that are made when parsing.
const STEPS_MAX: u32 = 10_000;

/// Replaces subtrees that are constant by their values. `kept` counts the bytes of those that were computed.
pub(super) fn fold(
    expr: &mut Expr,
    collation: Option<&'static Collation>,
    kept: &mut usize,
) -> Result<()> {
    folded(expr, collation, kept).map(|_| ())
}

/// Whether any value in the subtree was computed now, not written by the client.
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
    // As long as what was written.
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

/// Lets nothing large be made and nothing take long; notes that something would have.
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

    fn room(&self, more: usize) -> Result<()> {
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
