//! `$currentDate` and `$createObjectId`: operators that return a new value at each evaluation.

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx};

/// The kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    Date,
    ObjectId,
}

pub(super) fn parse_date(argument: Value<'_>, _: &mut ParseCx<'_>) -> Result<Expr> {
    parse("$currentDate", Fresh::Date, argument)
}

pub(super) fn parse_object_id(argument: Value<'_>, _: &mut ParseCx<'_>) -> Result<Expr> {
    parse("$createObjectId", Fresh::ObjectId, argument)
}

/// Accepts only the empty object as argument.
fn parse(name: &str, fresh: Fresh, argument: Value<'_>) -> Result<Expr> {
    match argument {
        Value::Doc(doc) if doc.is_empty() => form(Form::Fresh(fresh)),
        _ => bail!(Code::FAILED_TO_PARSE, "{name} does not accept arguments"),
    }
}

impl Fresh {
    pub(super) fn eval<'a>(self, cx: &Eval<'a>) -> Value<'a> {
        let system = cx.vars.system;
        let now_ms = system.clock.map_or(cx.now_ms, |clock| clock());
        match self {
            Fresh::Date => Value::DateTime(now_ms),
            Fresh::ObjectId => {
                let seconds = u32::try_from(now_ms / 1000).unwrap_or(0);
                let id = match &system.ids {
                    Some(ids) => ids.next(seconds),
                    None => {
                        let mut id = [0; 12];
                        id[..4].copy_from_slice(&seconds.to_be_bytes());
                        id[4..].copy_from_slice(&cx.random().to_be_bytes());
                        id
                    }
                };
                Value::ObjectId(cx.arena.alloc(id))
            }
        }
    }
}
