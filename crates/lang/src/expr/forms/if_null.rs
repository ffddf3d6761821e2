//! `$ifNull`: the first operand that is not null, undefined or missing; else the last one.

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let args = parse::arguments(argument, cx)?;
    if args.len() < 2 {
        bail!(Code::Location(1257300), "$ifNull needs at least two arguments, had: {}", args.len());
    }
    form(Form::IfNull(args))
}

pub(super) fn eval<'a>(args: &'a [Expr], cx: &Eval<'a>) -> Result<Value<'a>> {
    let mut value = Value::Null;
    for arg in args {
        value = arg.eval(cx)?;
        if !value.is_nullish() {
            break;
        }
    }
    Ok(value)
}
