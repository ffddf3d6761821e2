//! `$filter`: the elements of an array for which a condition holds.

use super::params::{Codes, missing, params};
use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::{Value, number};
use nagi_error::{Code, Result, bail};

const CODES: Codes = Codes { name: "$filter", not_object: 28646, unknown: 28647 };

#[derive(Debug, Clone)]
pub struct Filter {
    level: u16,
    /// Input, condition, limit (constant null without a limit).
    operands: [Expr; 3],
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let [input, name, cond, limit] = params(argument, &CODES, ["input", "as", "cond", "limit"])?;
    if input.is_missing() {
        return Err(missing("$filter", "input", 28648));
    }
    if cond.is_missing() {
        return Err(missing("$filter", "cond", 28650));
    }
    let name = variable_name(name)?;
    let input = parse::operand(input, cx)?;
    let level = cx.level();
    let cond = cx.with_locals(&[name], |cx| parse::operand(cond, cx))?;
    let limit = match limit {
        Value::Missing => Expr::constant(Value::Null),
        limit => parse::operand(limit, cx)?,
    };
    form(Form::Filter(Filter { level, operands: [input, cond, limit] }))
}

/// The variable name given by `as`; `this` by default.
pub(super) fn variable_name<'v>(value: Value<'v>) -> Result<&'v str> {
    let name = match value {
        Value::Missing => return Ok("this"),
        Value::String(name) => name,
        _ => "",
    };
    ParseCx::check_write(name)?;
    Ok(name)
}

impl Filter {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let [input, cond, limit] = &self.operands;
        let items = match input.eval(cx)? {
            Value::Array(items) => items,
            value if value.is_nullish() => return Ok(Value::Null),
            other => bail!(
                Code::Location(28651),
                "input to $filter must be an array not {}",
                other.kind().name()
            ),
        };
        let limit = self::limit(limit.eval(cx)?)?;
        let (inner, local) = cx.bind(self.level, Value::Missing);
        cx.array(|out| {
            for item in items.iter() {
                if out.count() >= limit {
                    break;
                }
                cx.vars.step()?;
                local.value.set(item);
                if cond.eval_bool(&inner)? {
                    out.push(cx.fitting(out.len(), item)?);
                }
                inner.check_turn(out.len())?;
            }
            Ok(())
        })
    }

    pub(super) fn children(&self) -> &[Expr; 3] {
        &self.operands
    }

    pub(super) fn children_mut(&mut self) -> &mut [Expr; 3] {
        &mut self.operands
    }
}

fn limit(value: Value<'_>) -> Result<u32> {
    if value.is_nullish() {
        return Ok(u32::MAX);
    }
    match number::as_i64_exact(value).and_then(|n| i32::try_from(n).ok()) {
        Some(n) if n > 0 => Ok(n as u32),
        Some(n) => {
            bail!(Code::Location(327392), "$filter: limit must be greater than 0: {n}")
        }
        None => bail!(
            Code::Location(327391),
            "$filter: limit must be represented as a 32-bit integral value: {value}"
        ),
    }
}
