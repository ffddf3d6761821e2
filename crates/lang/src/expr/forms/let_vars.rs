//! `$let`: binds variables for one expression. The variables of one `$let` do not see each other.

use super::params::{Codes, missing, params};
use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

const CODES: Codes = Codes { name: "$let", not_object: 16874, unknown: 16875 };

#[derive(Debug, Clone)]
pub struct Let {
    /// The level of the first variable.
    level: u16,
    values: Box<[Expr]>,
    body: Expr,
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let [vars, body] = params(argument, &CODES, ["vars", "in"])?;
    if vars.is_missing() {
        return Err(missing("$let", "vars", 16876));
    }
    if body.is_missing() {
        return Err(missing("$let", "in", 16877));
    }
    let Value::Doc(vars) = vars else {
        bail!(Code::Location(10065), "invalid parameter: expected an object (vars)");
    };
    let mut names = Vec::new();
    let mut values = Vec::new();
    for element in vars {
        ParseCx::check_write(element.name())?;
        names.push(element.name());
        values.push(parse::operand(element.value(), cx)?);
    }
    let level = cx.level();
    let body = cx.with_locals(&names, |cx| parse::operand(body, cx))?;
    form(Form::Let(Let { level, values: values.into(), body }))
}

impl Let {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let mut inner = *cx;
        for (at, value) in self.values.iter().enumerate() {
            inner = inner.bind(self.level + at as u16, value.eval(cx)?).0;
        }
        self.body.eval(&inner)
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Expr> {
        self.values.iter().chain([&self.body])
    }

    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.values.iter_mut().chain([&mut self.body])
    }
}
