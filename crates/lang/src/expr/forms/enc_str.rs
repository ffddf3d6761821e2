//! `$encStrContains`, `$encStrEndsWith`, `$encStrNormalizedEq`, `$encStrStartsWith`: predicates over strings that the
//! client has encrypted for Queryable Encryption.
//!
//! The text arrives as the payload into which the client's library encrypts it. A plain string is accepted by the
//! parser, since a command may be parsed before that library has processed it, but its evaluation fails.

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{Form, form};
use crate::encrypted::{FIND_TEXT, PLACEHOLDER, Part, SUBTYPE, TextValue, ZerosKey};
use crate::expr::{Eval, Expr, ParseCx};

/// One operator.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    /// The name of the argument that holds the text.
    text: &'static str,
    part: Part,
    /// MongoDB's name of the operator in errors, and the error code for a text that is not encrypted.
    shown: &'static str,
    unencrypted: i32,
}

pub(super) static CONTAINS: Row = Row {
    name: "$encStrContains",
    text: "substring",
    part: Part::Substring,
    shown: "ExpressionEncStrContains",
    unencrypted: 10208801,
};
pub(super) static ENDS_WITH: Row = Row {
    name: "$encStrEndsWith",
    text: "suffix",
    part: Part::Suffix,
    shown: "ExpressionEncStrEndsWith",
    unencrypted: 10120901,
};
pub(super) static NORMALIZED_EQ: Row = Row {
    name: "$encStrNormalizedEq",
    text: "string",
    part: Part::Exact,
    shown: "ExpressionEncStrNormalizedEq",
    unencrypted: 10255700,
};
pub(super) static STARTS_WITH: Row = Row {
    name: "$encStrStartsWith",
    text: "prefix",
    part: Part::Prefix,
    shown: "ExpressionEncStrStartsWith",
    unencrypted: 10111808,
};

/// A parsed predicate.
#[derive(Debug, Clone)]
pub struct EncStr {
    row: &'static Row,
    pub(super) input: Expr,
    /// None if the text is not encrypted.
    key: Option<ZerosKey>,
}

pub(super) fn parse(row: &'static Row, argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Row { name, text, .. } = row;
    let Value::Doc(doc) = argument else {
        bail!(Code::Location(10065), "invalid parameter: expected an object ({name})");
    };
    let (mut input, mut payload) = (None, None);
    for element in doc {
        match (element.name(), element.value()) {
            ("input", Value::String(path)) => input = Some(path),
            ("input", other) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '{name}.input' is the wrong type '{}', expected type 'string'",
                other.kind().name()
            ),
            (field, value) if field == *text => payload = Some(value),
            (field, _) => {
                bail!(Code::IDL_UNKNOWN_FIELD, "BSON field '{name}.{field}' is an unknown field.")
            }
        }
    }
    let missing = |field: &str| {
        nagi_error::Error::new(
            Code::IDL_FAILED_TO_PARSE,
            format!("BSON field '{name}.{field}' is missing but a required field"),
        )
    };
    let path = input.ok_or_else(|| missing("input"))?;
    let payload = payload.ok_or_else(|| missing(text))?;
    if !path.starts_with('$') {
        bail!(Code::Location(16873), "FieldPath '{path}' doesn't start with a $");
    }
    let input = Expr::parse(Value::String(path), cx)?;
    let key = key(&Expr::parse(payload, cx)?)?;
    form(Form::EncStr(EncStr { row, input, key }))
}

/// The key of an encrypted text; none if it is not yet encrypted.
fn key(text: &Expr) -> Result<Option<ZerosKey>> {
    match text.as_const() {
        None => {
            bail!(Code::Location(10111801), "ExpressionEncTextSearch expects a constant literal")
        }
        Some(Value::String(_)) => Ok(None),
        Some(Value::Binary(data)) => match data.bytes.split_first() {
            Some((&FIND_TEXT, payload)) if data.subtype == SUBTYPE => {
                ZerosKey::read(payload).map(Some)
            }
            Some((&PLACEHOLDER, _)) if data.subtype == SUBTYPE => Ok(None),
            _ => bail!(
                Code::Location(10112803),
                "ExpressionEncTextSearch expects a placeholder or a text search payload"
            ),
        },
        Some(_) => bail!(
            Code::Location(10111802),
            "ExpressionEncTextSearch expects a constant string or binary data"
        ),
    }
}

impl EncStr {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let value = self.input.eval(cx)?;
        if value.is_nullish() {
            return Ok(Value::Null);
        }
        let Some(key) = &self.key else {
            let Row { shown, unencrypted, .. } = self.row;
            bail!(
                Code::Location(*unencrypted),
                "{shown} can't be evaluated without binary payload"
            );
        };
        let Value::Binary(data) = value else { return Ok(Value::Bool(false)) };
        if data.subtype != SUBTYPE {
            bail!(Code::Location(6672415), "Expected binData with subtype Encrypt");
        }
        for blocks in TextValue::read(data.bytes)?.blocks(self.row.part).chunks(256) {
            cx.vars.step()?;
            if blocks.iter().any(|block| key.opens(block)) {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }
}
