//! `$and`, `$or`: evaluation stops at the first operand that decides the result.

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::Value;
use nagi_error::Result;

pub(super) fn parse_and(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    form(Form::And(parse::arguments(argument, cx)?))
}

pub(super) fn parse_or(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    form(Form::Or(parse::arguments(argument, cx)?))
}

pub(super) fn eval_and<'a>(args: &'a [Expr], cx: &Eval<'a>) -> Result<Value<'a>> {
    for arg in args {
        if !arg.eval_bool(cx)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

pub(super) fn eval_or<'a>(args: &'a [Expr], cx: &Eval<'a>) -> Result<Value<'a>> {
    for arg in args {
        if arg.eval_bool(cx)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
