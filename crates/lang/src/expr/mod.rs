//! Aggregation expressions: what `{$add: ["$a", 1]}` means, parsed once and evaluated per document.
//!
//! ```text
//!   BSON --parse--> Expr --fold--> Expr --eval(root, variables, arena)--> Value
//! ```
//!
//! [`Expr`] is a small enum: constants, paths, variables and the *forms*, which decide themselves
//! what they evaluate (`$cond`, `$let`, `$map`, ...: one variant and one file under `forms/` each).
//! The other operators are *strict*: all arguments first, then one function. They are rows
//! ([`Operator`]) in family files under `ops/`; arity, named arguments, null rule and constant folding
//! are handled here once, for all rows.
//!
//! Invariants
//! - Evaluation borrows: a result points into the document, a constant of the plan or the arena.
//! - An expression is immutable and `Send + Sync`; constants are owned bytes.
//! - `Missing` is a value like any other until somebody writes it into a document.
//!
//! Does not know about: documents' storage, clocks (time is given in [`Eval`]), collections.

mod catalogue;
mod comparisons;
mod cx;
mod deps;
mod eval;
mod fold;
mod forms;
mod metadata;
mod named;
mod names;
mod ops;
mod parse;
mod path;
pub(crate) mod print;
pub mod room;
mod scratch;

pub(crate) use catalogue::is_operator;
pub use catalogue::{Args, EvalFn, Nulls, Operator, operator_names};
pub(crate) use comparisons::Logic;
pub use comparisons::Relation;
pub use cx::{LetVars, ParseCx};
pub use deps::Deps;
pub use eval::{Eval, Pace, System, Vars};
pub use metadata::{MetaKind, MetaSet, Metadata};
pub use names::{check_field_name, check_variable_write, parse_field_path};
pub use path::ExprPath;

use nagi_bson::{Value, ValueBuf};

use forms::Form;

/// A parsed expression.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A value known when parsing: a literal, or a folded subtree.
    Const(ValueBuf),
    /// `"$a.b"`: a path of the root document.
    Path(ExprPath),
    /// `"$$name"` or `"$$name.a.b"`.
    Var(Variable, Option<ExprPath>),
    /// An object literal; fields whose value is missing are left out.
    Object(Box<[(Box<str>, Expr)]>),
    /// An array literal; missing values become null.
    Array(Box<[Expr]>),
    /// A strict operator and its arguments, absent named arguments as `Const(Missing)`.
    Call(&'static Operator, Box<[Expr]>),
    /// An operator that decides itself what it evaluates.
    Form(Box<Form>),
}

/// What a variable's name was resolved to when parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The whole input document.
    Root,
    /// The wall clock at the start of the command.
    Now,
    ClusterTime,
    UserRoles,
    SearchMeta,
    /// `$$REMOVE`: always missing.
    Remove,
    /// A variable of the server that nothing but an old mapReduce has a value for, by its name.
    Unavailable(&'static str),
    /// A variable of the command's or the sub-pipeline's `let`, by position.
    Let(u16),
    /// A variable bound inside the expression, by nesting level from the outside.
    Local(u16),
}

impl Expr {
    /// The values that a `find` sorts by: `{$meta: "sortKey"}` of its projection.
    pub(crate) fn sort_key() -> Expr {
        forms::sort_key()
    }

    /// Parses and folds an expression; errors are MongoDB's codes.
    pub fn parse(value: Value<'_>, cx: &mut ParseCx<'_>) -> nagi_error::Result<Expr> {
        let mut expr = parse::operand(value, cx)?;
        fold::fold(&mut expr, cx.collation(), cx.folded_bytes())?;
        Ok(match cx.collation() {
            Some(collation) => forms::collated(expr, collation),
            None => expr,
        })
    }

    /// A constant.
    pub fn constant(value: Value<'_>) -> Expr {
        Expr::Const(ValueBuf::new(value))
    }

    /// The constant's value, if the expression is one.
    pub fn as_const(&self) -> Option<Value<'_>> {
        match self {
            Expr::Const(value) => Some(value.value()),
            _ => None,
        }
    }

    /// Visits the direct operands.
    pub fn for_each_child(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Expr::Const(_) | Expr::Path(_) | Expr::Var(..) => {}
            Expr::Object(fields) => fields.iter().for_each(|(_, e)| visit(e)),
            Expr::Array(items) | Expr::Call(_, items) => items.iter().for_each(visit),
            Expr::Form(form) => form.for_each_child(visit),
        }
    }

    /// Visits the direct operands, which may be replaced.
    pub fn for_each_child_mut(
        &mut self,
        visit: &mut dyn FnMut(&mut Expr) -> nagi_error::Result<()>,
    ) -> nagi_error::Result<()> {
        match self {
            Expr::Const(_) | Expr::Path(_) | Expr::Var(..) => Ok(()),
            Expr::Object(fields) => fields.iter_mut().try_for_each(|(_, e)| visit(e)),
            Expr::Array(items) | Expr::Call(_, items) => items.iter_mut().try_for_each(visit),
            Expr::Form(form) => form.for_each_child_mut(visit),
        }
    }
}
