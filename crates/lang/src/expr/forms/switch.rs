//! `$switch`: the result of the first branch whose case is true.

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

#[derive(Debug, Clone)]
pub struct Switch {
    branches: Box<[[Expr; 2]]>,
    default: Option<Expr>,
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Value::Doc(doc) = argument else {
        bail!(
            Code::Location(40060),
            "$switch requires an object as an argument, found: {}",
            argument.kind().name()
        );
    };
    let mut branches = Vec::new();
    let mut default = None;
    for element in doc {
        match (element.name(), element.value()) {
            ("branches", Value::Array(items)) => {
                for item in items.iter() {
                    branches.push(branch(item, cx)?);
                }
            }
            ("branches", other) => bail!(
                Code::Location(40061),
                "$switch expected an array for 'branches', found: {}",
                other.kind().name()
            ),
            ("default", value) => default = Some(parse::operand(value, cx)?),
            (name, _) => {
                bail!(Code::Location(40067), "$switch found an unknown argument: {name}")
            }
        }
    }
    if branches.is_empty() {
        bail!(Code::Location(40068), "$switch requires at least one branch.");
    }
    form(Form::Switch(Switch { branches: branches.into(), default }))
}

fn branch(item: Value<'_>, cx: &mut ParseCx<'_>) -> Result<[Expr; 2]> {
    let Value::Doc(doc) = item else {
        bail!(
            Code::Location(40062),
            "$switch expected each branch to be an object, found: {}",
            item.kind().name()
        );
    };
    let (mut case, mut then) = (None, None);
    for element in doc {
        match element.name() {
            "case" => case = Some(parse::operand(element.value(), cx)?),
            "then" => then = Some(parse::operand(element.value(), cx)?),
            name => bail!(
                Code::Location(40063),
                "$switch found an unknown argument to a branch: {name}"
            ),
        }
    }
    let Some(case) = case else {
        bail!(Code::Location(40064), "$switch requires each branch have a 'case' expression");
    };
    let Some(then) = then else {
        bail!(Code::Location(40065), "$switch requires each branch have a 'then' expression.");
    };
    Ok([case, then])
}

impl Switch {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        for [case, then] in &self.branches {
            if case.eval_bool(cx)? {
                return then.eval(cx);
            }
        }
        match &self.default {
            Some(default) => default.eval(cx),
            None => bail!(
                Code::Location(40066),
                "$switch could not find a matching branch for an input, and no default was \
                 specified."
            ),
        }
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Expr> {
        self.branches.iter().flatten().chain(&self.default)
    }

    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.branches.iter_mut().flatten().chain(&mut self.default)
    }
}
