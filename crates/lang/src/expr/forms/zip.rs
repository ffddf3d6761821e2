//! `$zip`: combines the i-th elements of several arrays into one array each.

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx, parse};
use nagi_bson::{Array, Value};
use nagi_error::{Code, Result, bail};

#[derive(Debug, Clone)]
pub struct Zip {
    inputs: Box<[Expr]>,
    defaults: Box<[Expr]>,
    longest: bool,
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Value::Doc(doc) = argument else {
        bail!(
            Code::Location(34460),
            "$zip only supports an object as an argument, found {}",
            argument.kind().name()
        );
    };
    let (mut inputs, mut defaults): (Box<[Expr]>, Box<[Expr]>) = Default::default();
    let mut longest = false;
    for element in doc {
        match (element.name(), element.value()) {
            ("inputs", Value::Array(items)) => inputs = parse::operands(items, cx)?,
            ("defaults", Value::Array(items)) => defaults = parse::operands(items, cx)?,
            ("useLongestLength", Value::Bool(value)) => longest = value,
            (name @ ("inputs" | "defaults"), other) => bail!(
                Code::Location(if name == "inputs" { 34461 } else { 34462 }),
                "{name} must be an array of expressions, found {}",
                other.kind().name()
            ),
            ("useLongestLength", other) => bail!(
                Code::Location(34463),
                "useLongestLength must be a bool, found {}",
                other.kind().name()
            ),
            (name, _) => {
                bail!(Code::Location(34464), "$zip found an unknown argument: {name}")
            }
        }
    }
    if inputs.is_empty() {
        bail!(Code::Location(34465), "$zip requires at least one input array");
    }
    if !defaults.is_empty() && !longest {
        bail!(Code::Location(34466), "cannot specify defaults unless useLongestLength is true");
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        bail!(Code::Location(34467), "defaults and inputs must have the same length");
    }
    form(Form::Zip(Zip { inputs, defaults, longest }))
}

impl Zip {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let mut arrays: Vec<Array<'a>> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            match input.eval(cx)? {
                Value::Array(items) => arrays.push(items),
                value if value.is_nullish() => return Ok(Value::Null),
                other => bail!(
                    Code::Location(34468),
                    "$zip found a non-array expression in input: {other}"
                ),
            }
        }
        let counts = arrays.iter().map(Array::count);
        let rows = if self.longest { counts.max() } else { counts.min() }.unwrap_or(0);
        let mut defaults = Vec::with_capacity(self.defaults.len());
        for default in &self.defaults {
            defaults.push(default.eval(cx)?);
        }
        let mut columns: Vec<_> = arrays.iter().map(|items| items.iter()).collect();
        cx.array(|out| {
            for _ in 0..rows {
                out.array(|out| -> Result<()> {
                    for (at, column) in columns.iter_mut().enumerate() {
                        let default = defaults.get(at).copied().unwrap_or(Value::Null);
                        let value = column.next().unwrap_or(default);
                        out.push(cx.fitting(out.len(), value)?);
                        cx.check_written(out.len())?;
                    }
                    Ok(())
                })?;
                cx.vars.step()?;
            }
            Ok(())
        })
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Expr> {
        self.inputs.iter().chain(&self.defaults)
    }

    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.inputs.iter_mut().chain(&mut self.defaults)
    }
}
