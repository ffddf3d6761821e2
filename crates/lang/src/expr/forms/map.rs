//! `$map`: evaluates an expression for each element of an array.

use super::params::{Codes, missing, params};
use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

const CODES: Codes = Codes { name: "$map", not_object: 16878, unknown: 16879 };

#[derive(Debug, Clone)]
pub struct Map {
    level: u16,
    input: Expr,
    body: Expr,
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let [input, name, body] = params(argument, &CODES, ["input", "as", "in"])?;
    if input.is_missing() {
        return Err(missing("$map", "input", 16880));
    }
    if body.is_missing() {
        return Err(missing("$map", "in", 16882));
    }
    let name = super::filter::variable_name(name)?;
    let input = parse::operand(input, cx)?;
    let level = cx.level();
    let body = cx.with_locals(&[name], |cx| parse::operand(body, cx))?;
    form(Form::Map(Map { level, input, body }))
}

impl Map {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let items = match self.input.eval(cx)? {
            Value::Array(items) => items,
            value if value.is_nullish() => return Ok(Value::Null),
            other => bail!(
                Code::Location(16883),
                "input to $map must be an array not {}",
                other.kind().name()
            ),
        };
        let (inner, local) = cx.bind(self.level, Value::Missing);
        cx.array(|out| {
            for item in items.iter() {
                cx.vars.step()?;
                local.value.set(item);
                out.push(cx.fitting(out.len(), self.body.eval(&inner)?)?);
                inner.check_turn(out.len())?;
            }
            Ok(())
        })
    }

    pub(super) fn children(&self) -> [&Expr; 2] {
        [&self.input, &self.body]
    }

    pub(super) fn children_mut(&mut self) -> [&mut Expr; 2] {
        [&mut self.input, &mut self.body]
    }
}
