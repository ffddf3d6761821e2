//! Operators with named arguments, such as `{$dateAdd: {startDate: ..., unit: ..., amount: ...}}`.
//!
//! A row ([`Named`]) declares the arguments of an operator and the error codes for invalid ones. Its function
//! receives a [`Given`] and evaluates through it the arguments that it needs. Other arguments are not evaluated, so
//! `onError` has no cost unless a conversion fails.

mod array_n;
mod convert;
mod date_math;
mod date_parts;
mod date_text;
mod digest;
mod ejson;
mod ejson_read;
mod field;
mod regex;
mod replace;
mod similarity;
mod sort_array;
mod to_date;
mod trim;

use std::borrow::Cow;
use std::sync::OnceLock;

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::forms::Form;
use super::{Eval, Expr, ParseCx, parse};
use crate::regex::Pattern;
use crate::time::Zone;

/// One operator with named arguments.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: &'static str,
    /// The argument names. A required argument has the error code for its absence.
    pub(super) params: &'static [(&'static str, Option<i32>)],
    /// The error code if the argument is not an object.
    pub(super) not_object: i32,
    /// The error code for an unknown argument.
    pub(super) unknown: i32,
    /// Parses other forms of the arguments. If it returns `None`, the argument is parsed as an object.
    pub(super) short: Option<ShortForm>,
    pub(super) eval: for<'a> fn(&Given<'a, '_>) -> Result<Value<'a>>,
}

/// Parses an argument that is not the object of named arguments.
pub(super) type ShortForm = fn(&'static Named, Value<'_>, &mut ParseCx<'_>) -> Result<Option<Args>>;

/// The arguments in the order of the row's parameters.
pub(super) type Args = Box<[Option<Expr>]>;

/// All families.
pub(super) static FAMILIES: &[&[Named]] = &[
    array_n::OPS,
    convert::OPS,
    date_math::OPS,
    date_parts::OPS,
    date_text::OPS,
    digest::OPS,
    ejson::OPS,
    field::OPS,
    regex::OPS,
    replace::OPS,
    similarity::OPS,
    sort_array::OPS,
    to_date::OPS,
    trim::OPS,
];

/// A call of an operator with its arguments.
#[derive(Debug, Clone)]
pub struct NamedCall {
    pub(super) row: &'static Named,
    pub(super) args: Args,
    /// The prepared form of a constant argument. It is built once for all documents.
    prepared: OnceLock<Prepared>,
}

/// A constant argument in the form that evaluation uses.
#[derive(Debug, Clone)]
pub(super) enum Prepared {
    Zone(Zone),
    Pattern(Pattern),
}

/// The arguments of one evaluation.
pub(super) struct Given<'a, 'c> {
    pub(super) name: &'static str,
    pub(super) cx: &'c Eval<'a>,
    args: &'a [Option<Expr>],
    prepared: &'a OnceLock<Prepared>,
}

impl<'a> Given<'a, '_> {
    /// Returns true if the argument is present.
    fn has(&self, index: usize) -> bool {
        self.args[index].is_some()
    }

    /// Evaluates an argument; the value of an absent one is `Missing`.
    fn value(&self, index: usize) -> Result<Value<'a>> {
        match &self.args[index] {
            Some(expr) => expr.eval(self.cx),
            None => Ok(Value::Missing),
        }
    }

    /// Returns true if the argument is absent or the same for every document.
    fn is_constant(&self, index: usize) -> bool {
        matches!(self.args[index], None | Some(Expr::Const(_)))
    }

    /// Returns the result of `make`. If `constant` is true, it is computed once and then shared by all documents.
    fn prepared(
        &self,
        constant: bool,
        make: impl FnOnce() -> Result<Prepared>,
    ) -> Result<Cow<'a, Prepared>> {
        if !constant {
            return Ok(Cow::Owned(make()?));
        }
        if let Some(known) = self.prepared.get() {
            return Ok(Cow::Borrowed(known));
        }
        let made = make()?;
        Ok(Cow::Borrowed(self.prepared.get_or_init(|| made)))
    }

    /// Evaluates the argument that replaces null (`onNull`); null if it is absent.
    fn value_or_null(&self, index: usize) -> Result<Value<'a>> {
        match &self.args[index] {
            Some(expr) => expr.eval(self.cx),
            None => Ok(Value::Null),
        }
    }
}

impl NamedCall {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let Self { row, args, prepared } = self;
        (row.eval)(&Given { name: row.name, cx, args, prepared })
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().flatten()
    }

    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.args.iter_mut().flatten()
    }
}

/// Parses a call of `row`.
pub(super) fn parse_call(
    row: &'static Named,
    argument: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Expr> {
    let short = match row.short {
        Some(short) => short(row, argument, cx)?,
        None => None,
    };
    let args = match short {
        Some(args) => args,
        None => named_args(row, argument, cx)?,
    };
    Ok(Expr::Form(Box::new(Form::Named(NamedCall { row, args, prepared: OnceLock::new() }))))
}

/// FailedToParse. Operators whose rows have this code get messages of a different form.
const PLAIN_CODE: i32 = 9;

fn named_args(row: &'static Named, argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Args> {
    let Value::Doc(doc) = argument else {
        if row.not_object == PLAIN_CODE {
            bail!(
                Code::FAILED_TO_PARSE,
                "{} expects an object of named arguments but found: {}",
                row.name,
                argument.kind().name()
            );
        }
        bail!(
            Code::Location(row.not_object),
            "{} only supports an object as its argument, found: {}",
            row.name,
            argument.kind().name()
        );
    };
    let mut args: Vec<Option<Expr>> = vec![None; row.params.len()];
    for element in doc {
        match row.params.iter().position(|(name, _)| *name == element.name()) {
            Some(at) => args[at] = Some(parse::operand(element.value(), cx)?),
            None if row.unknown == PLAIN_CODE => bail!(
                Code::FAILED_TO_PARSE,
                "{} found an unknown argument: {}",
                row.name,
                element.name()
            ),
            None => bail!(
                Code::Location(row.unknown),
                "Unrecognized argument to {}: {}",
                row.name,
                element.name()
            ),
        }
    }
    for ((name, code), arg) in row.params.iter().zip(&args) {
        if let (Some(code), None) = (code, arg) {
            bail!(Code::Location(*code), "Missing '{name}' parameter to {}", row.name);
        }
    }
    Ok(args.into())
}

/// The imports of every family file.
mod prelude {
    pub(super) use nagi_bson::{Value, number};
    pub(super) use nagi_error::{Code, Error, Result, bail, err};

    pub(super) use super::{Args, Given, Named, Prepared};
    pub(super) use crate::expr::{Eval, Expr, ParseCx, parse};

    /// The name of the value's type in messages.
    pub(super) fn type_name(value: Value<'_>) -> &'static str {
        value.kind().name()
    }
}
