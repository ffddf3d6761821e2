//! The parser of expressions: BSON to [`Expr`].

use std::collections::HashSet;

use foldhash::fast::RandomState;
use nagi_bson::{Array, Doc, Value};
use nagi_error::{Code, Result, bail};

use super::named::parse_call;
use super::names::{check_field_name, parse_field_path};
use super::registry::{Args, Operator, Row, find};
use super::{Expr, ParseCx};
use crate::memory;

/// Parses an operand: a path, a variable, an operator or a literal.
pub(super) fn operand(value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    memory::check()?;
    match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(path) => field_path(path, cx),
            None => Ok(Expr::constant(value)),
        },
        Value::Doc(doc) => cx.nested(|cx| object(doc, cx)),
        Value::Array(items) => cx.nested(|cx| Ok(Expr::Array(operands(items, cx)?))),
        _ => Ok(Expr::constant(value)),
    }
}

/// Parses each element of an array as an operand.
pub(super) fn operands(items: Array<'_>, cx: &mut ParseCx<'_>) -> Result<Box<[Expr]>> {
    let count = items.count();
    memory::check_copies(count * size_of::<Expr>())?;
    let mut all = Vec::with_capacity(count);
    for item in items.iter() {
        all.push(operand(item, cx)?);
    }
    Ok(all.into())
}

/// Parses a path or a variable. `text` is the part after the first `$`.
fn field_path(text: &str, cx: &ParseCx<'_>) -> Result<Expr> {
    if text.is_empty() {
        bail!(Code::Location(16872), "'$' by itself is not a valid FieldPath");
    }
    let Some(text) = text.strip_prefix('$') else {
        return Ok(cx.current(parse_field_path(text)?));
    };
    let (name, path) = match text.split_once('.') {
        Some((name, path)) => (name, Some(path)),
        None => (text, None),
    };
    ParseCx::check_read(name)?;
    let path = match path {
        Some("") => bail!(Code::Location(40353), "FieldPath must not end with a '.'."),
        Some(path) => Some(parse_field_path(path)?),
        None => None,
    };
    cx.variable(name, path)
}

/// Parses an object: either one operator, or a literal whose fields are operands.
pub(super) fn object(doc: Doc<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Some(first) = doc.first() else {
        return Ok(Expr::Object(Box::new([])));
    };
    if first.name().starts_with('$') {
        if doc.count() != 1 {
            bail!(
                Code::Location(15983),
                "An object representing an expression must have exactly one field: {doc}"
            );
        }
        return operator(first.name(), first.value(), cx);
    }
    let count = doc.count();
    memory::check_copies(count * (size_of::<(Box<str>, Expr)>() + 2 * size_of::<&str>()))?;
    let mut fields: Vec<(Box<str>, Expr)> = Vec::with_capacity(count);
    let mut names =
        HashSet::<&str, RandomState>::with_capacity_and_hasher(count, RandomState::default());
    for element in doc {
        let name = element.name();
        check_field_name(name)?;
        if !names.insert(name) {
            bail!(Code::Location(16406), "duplicate field name specified in object literal: {doc}");
        }
        fields.push((name.into(), operand(element.value(), cx)?));
    }
    Ok(Expr::Object(fields.into()))
}

/// Parses `{name: argument}` where the name begins with `$`.
pub(super) fn operator(name: &str, argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    match find(name) {
        Some(Row::Strict(row)) => strict(row, argument, cx),
        Some(Row::Form(row)) => (row.parse)(argument, cx),
        Some(Row::Named(row)) => parse_call(row, argument, cx),
        None => bail!(Code::INVALID_PIPELINE_OPERATOR, "Unrecognized expression '{name}'"),
    }
}

fn strict(row: &'static Operator, argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let args = arguments(argument, cx)?;
    let count = args.len();
    match row.args {
        Args::Exactly(wanted) if count != wanted => bail!(
            Code::Location(16020),
            "Expression {} takes exactly {wanted} arguments. {count} were passed in.",
            row.name
        ),
        Args::Between(min, max) if count < min || count > max => bail!(
            Code::Location(28667),
            "Expression {} takes at least {min} arguments, and at most {max}, but {count} were \
             passed in.",
            row.name
        ),
        _ => Ok(Expr::Call(row, args)),
    }
}

/// Parses the arguments of an operator: the elements of an array, or one operand.
pub(super) fn arguments(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Box<[Expr]>> {
    match argument {
        Value::Array(items) => operands(items, cx),
        single => Ok(Box::new([operand(single, cx)?])),
    }
}
