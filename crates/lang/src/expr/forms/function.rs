//! `$function`: calls a JavaScript function.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx};
use crate::script;

#[derive(Debug, Clone)]
pub struct Function {
    body: Arc<script::Function>,
    pub(super) args: Expr,
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Value::Doc(doc) = argument else {
        bail!(
            Code::Location(31260),
            "$function requires an object as an argument, found: {}",
            argument.kind().name()
        );
    };
    let body = doc.get("body");
    if body.is_missing() {
        bail!(Code::Location(31261), "The body function must be specified.");
    }
    let body = Expr::parse(body, cx)?;
    let Some(body) = body.as_const() else {
        bail!(Code::Location(31432), "The body function must be a constant expression");
    };
    let body = match body {
        Value::String(_) | Value::Code(_) => script::Function::from_value(body),
        _ => None,
    };
    let Some(body) = body else {
        bail!(Code::Location(31262), "The body function must evaluate to type string or code");
    };
    let args = doc.get("args");
    if args.is_missing() {
        bail!(Code::Location(31263), "The args field must be specified.");
    }
    let args = Expr::parse(args, cx)?;
    match doc.get("lang") {
        Value::Missing => bail!(Code::Location(31418), "The lang field must be specified."),
        Value::String("js") => form(Form::Function(Function { body, args })),
        _ => {
            bail!(Code::Location(31419), "Currently the only supported language specifier is 'js'.")
        }
    }
}

impl Function {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let scripts = cx.vars.scripts()?;
        let Value::Array(args) = self.args.eval(cx)? else {
            bail!(Code::Location(31266), "The args field must be of type array");
        };
        let args = cx.list(args)?;
        let result = scripts.call(&self.body, Value::Missing, &args)?;
        let held = cx.doc(|out| {
            out.put("", result.value());
            Ok(())
        })?;
        Ok(held.as_doc().map_or(Value::Missing, |doc| doc.get("")))
    }
}
