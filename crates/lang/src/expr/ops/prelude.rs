//! The imports and row constructors of every family file.

pub(super) use crate::expr::memory::{check_size, check_text};
pub(super) use nagi_bson::{Array, Decimal128, Doc, Value, number};
pub(super) use nagi_error::{Code, Error, Result, bail, err};

pub(super) use crate::collation;
pub(super) use crate::expr::{Args, Eval, EvalFn, Nulls, Operator};

/// A row with one argument; a null argument gives null.
pub(super) const fn unary(name: &'static str, eval: EvalFn) -> Operator {
    Operator { name, args: Args::Exactly(1), nulls: Nulls::Propagate, pure: true, eval }
}

/// A row whose function receives null arguments.
pub(super) const fn row(name: &'static str, args: Args, eval: EvalFn) -> Operator {
    Operator { name, args, nulls: Nulls::Pass, pure: true, eval }
}

/// A row where a null in any argument gives null.
pub(super) const fn strict(name: &'static str, args: Args, eval: EvalFn) -> Operator {
    Operator { name, args, nulls: Nulls::Propagate, pure: true, eval }
}

/// The name of the value's type in messages.
pub(super) fn type_name(value: Value<'_>) -> &'static str {
    value.kind().name()
}
