//! `$reduce`: folds an array from the left with `$$value` and `$$this`.

use super::params::Codes;
use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, memory::check_depth, parse};
use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

const CODES: Codes = Codes { name: "$reduce", not_object: 40075, unknown: 40076 };

#[derive(Debug, Clone)]
pub struct Reduce {
    level: u16,
    /// Input, initial value, body.
    operands: [Expr; 3],
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let [input, initial, body] =
        super::params::params(argument, &CODES, ["input", "initialValue", "in"])?;
    for (value, name, code) in
        [(input, "input", 40077), (initial, "initialValue", 40078), (body, "in", 40079)]
    {
        if value.is_missing() {
            bail!(Code::Location(code), "$reduce requires '{name}' to be specified");
        }
    }
    let input = parse::operand(input, cx)?;
    let initial = parse::operand(initial, cx)?;
    let level = cx.level();
    let body = cx.with_locals(&["this", "value"], |cx| parse::operand(body, cx))?;
    form(Form::Reduce(Reduce { level, operands: [input, initial, body] }))
}

impl Reduce {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let [input, initial, body] = &self.operands;
        let items = match input.eval(cx)? {
            Value::Array(items) => items,
            value if value.is_nullish() => return Ok(Value::Null),
            other => bail!(
                Code::Location(40080),
                "$reduce requires that 'input' be an array, found: {other}"
            ),
        };
        let (outer, this) = cx.bind(self.level, Value::Missing);
        let (inner, total) = outer.bind(self.level + 1, initial.eval(cx)?);
        for item in items.iter() {
            cx.vars.step()?;
            this.value.set(item);
            let value = body.eval(&inner)?;
            inner.check_turn(0)?;
            match value {
                Value::Doc(doc) => check_depth(doc)?,
                Value::Array(items) => check_depth(Doc::trusted(items.as_bytes()))?,
                _ => {}
            }
            total.value.set(value);
        }
        Ok(total.value.get())
    }

    pub(super) fn children(&self) -> &[Expr; 3] {
        &self.operands
    }

    pub(super) fn children_mut(&mut self) -> &mut [Expr; 3] {
        &mut self.operands
    }
}
