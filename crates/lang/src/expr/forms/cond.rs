//! `$cond`: evaluates one of two operands, depending on a condition. The arguments are an array or are named.

use super::params::{Codes, missing, params};
use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

const CODES: Codes = Codes { name: "$cond", not_object: 16020, unknown: 17083 };

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    if matches!(argument, Value::Doc(_)) {
        let [condition, then, otherwise] = params(argument, &CODES, ["if", "then", "else"])?;
        let named = [(condition, "if", 17080), (then, "then", 17080), (otherwise, "else", 17082)];
        let codes = [17080, 17081, 17082];
        for ((value, name, _), code) in named.iter().zip(codes) {
            if value.is_missing() {
                return Err(missing("$cond", name, code));
            }
        }
        return form(Form::Cond(Box::new([
            parse::operand(condition, cx)?,
            parse::operand(then, cx)?,
            parse::operand(otherwise, cx)?,
        ])));
    }
    let args = parse::arguments(argument, cx)?.into_vec();
    let count = args.len();
    match <[Expr; 3]>::try_from(args) {
        Ok(args) => form(Form::Cond(Box::new(args))),
        Err(_) => bail!(
            Code::Location(16020),
            "Expression $cond takes exactly 3 arguments. {count} were passed in."
        ),
    }
}

pub(super) fn eval<'a>(args: &'a [Expr; 3], cx: &Eval<'a>) -> Result<Value<'a>> {
    let [condition, then, otherwise] = args;
    if condition.eval_bool(cx)? { then.eval(cx) } else { otherwise.eval(cx) }
}
