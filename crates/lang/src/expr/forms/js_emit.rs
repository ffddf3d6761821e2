//! `$_internalJsEmit`: calls the map function of a `mapReduce` on a document. The result is an array of the pairs
//! that the function emitted, `{k: key, v: value}`.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx};
use crate::script;

#[derive(Debug, Clone)]
pub struct JsEmit {
    map: Arc<script::Function>,
    pub(super) this: Expr,
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Value::Doc(doc) = argument else {
        bail!(
            Code::Location(31221),
            "$_internalJsEmit requires an object as an argument, found: {}",
            argument.kind().name()
        );
    };
    let map = match doc.get("eval") {
        Value::Missing => bail!(Code::Location(31222), "The map function must be specified."),
        Value::String(text) | Value::Code(text) => script::Function::new(text),
        _ => bail!(Code::Location(31224), "The map function must be of type string or code"),
    };
    let this = match doc.get("this") {
        Value::Missing => {
            bail!(Code::Location(31223), "$_internalJsEmit requires 'this' to be specified")
        }
        this => Expr::parse(this, cx)?,
    };
    form(Form::JsEmit(JsEmit { map, this }))
}

impl JsEmit {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let Some(scripts) = cx.vars.scripts else {
            bail!(
                Code::Location(31246),
                "Cannot run server-side javascript without the javascript engine enabled"
            );
        };
        let Value::Doc(this) = self.this.eval(cx)? else {
            bail!(Code::Location(31225), "'this' must be an object.");
        };
        cx.array(|out| {
            scripts.map(&self.map, this, &mut |key, value| {
                out.doc(|out| {
                    out.put("k", key);
                    out.put("v", value);
                });
                cx.check_turn(out.len())
            })
        })
    }
}
