//! Aggregation expressions such as `{$add: ["$a", 1]}`: parsed once per request, evaluated once per document.
//!
//! Called by filters (`$expr`), projections, update pipelines, accumulators, window functions and the pipeline stages
//! of `nagi-query`.
//!
//! ```text
//!   BSON --parse--> Expr --fold--> Expr --eval(root, variables, arena)--> Value
//! ```
//!
//! [`Expr`] is a small enum: constants, paths, variables and two kinds of operators.
//! - A *strict* operator evaluates all its arguments first and then calls one function. It is a row ([`Operator`]) in
//!   a family file under `ops/`. This module handles arity, the rule for null arguments and constant folding for all
//!   rows. Strict operators with named arguments are rows under `named/`.
//! - A *form* decides itself which operands it evaluates, how often and with which variables (`$cond`, `$let`,
//!   `$map`, ...). Each form is one variant and one file under `forms/`.
//!
//! Invariants
//! - Evaluation borrows: a result points into the document, into a constant of the plan or into the arena.
//! - An expression is immutable and `Send + Sync`; constants are owned bytes.
//! - `Missing` is a value like any other until it is written into a document.
//!
//! This module does not depend on the storage of documents, on clocks (the time is a field of [`Eval`]) or on
//! collections.

mod comparisons;
mod cx;
mod deps;
mod eval;
mod fold;
mod forms;
mod granule;
pub mod memory;
mod metadata;
mod named;
mod names;
mod ops;
mod parse;
mod path;
pub(crate) mod print;
mod registry;
mod scratch;

pub(crate) use comparisons::Logic;
pub use comparisons::Relation;
pub use cx::{LetVars, ParseCx};
pub use deps::Deps;
pub use eval::{Eval, Pace, System, Vars};
pub use granule::Granule;
pub use metadata::{MetaKind, MetaSet, Metadata};
pub use names::{check_field_name, check_variable_write, parse_field_path};
pub use path::ExprPath;
pub(crate) use registry::is_operator;
pub use registry::{Args, EvalFn, Nulls, Operator, argument_names, operator_names};

use nagi_bson::{Value, ValueBuf};

use forms::Form;

/// A parsed expression.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A value that is known at parse time: a literal, or a folded subtree.
    Const(ValueBuf),
    /// `"$a.b"`: a path of the root document.
    Path(ExprPath),
    /// `"$$name"` or `"$$name.a.b"`.
    Var(Variable, Option<ExprPath>),
    /// An object literal; fields whose value is missing are left out.
    Object(Box<[(Box<str>, Expr)]>),
    /// An array literal; missing values become null.
    Array(Box<[Expr]>),
    /// A strict operator and its arguments. An absent optional argument is `Const(Missing)`.
    Call(&'static Operator, Box<[Expr]>),
    /// An operator that decides itself which operands it evaluates.
    Form(Box<Form>),
}

/// The result of resolving a variable's name at parse time.
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
    /// A variable of the server that has a value only inside a legacy mapReduce, with its name. Evaluation fails with
    /// 51144.
    Unavailable(&'static str),
    /// A variable of `let` (of the command or the sub-pipeline), by position.
    Let(u16),
    /// A variable bound inside the expression, by nesting level; the outermost is 0.
    Local(u16),
}

impl Expr {
    /// The expression `{$meta: "sortKey"}` in the projection of a `find`: the values by which it sorts.
    pub(crate) fn sort_key() -> Expr {
        forms::sort_key()
    }

    /// Parses and folds an expression.
    ///
    /// # Errors
    /// MongoDB's codes.
    pub fn parse(value: Value<'_>, cx: &mut ParseCx<'_>) -> nagi_error::Result<Expr> {
        let mut expr = parse::operand(value, cx)?;
        fold::fold(&mut expr, cx.collation(), cx.folded_bytes())?;
        Ok(match cx.collation() {
            Some(collation) => forms::collated(expr, collation),
            None => expr,
        })
    }

    /// Makes a constant expression from a value.
    pub fn constant(value: Value<'_>) -> Expr {
        Expr::Const(ValueBuf::new(value))
    }

    /// The value, if the expression is a constant.
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

    /// Visits the direct operands and lets `visit` replace them.
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
