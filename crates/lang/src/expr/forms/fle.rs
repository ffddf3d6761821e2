//! `$_internalFleEq`, `$_internalFleBetween`: whether an encrypted value belongs to one of some tokens.
//!
//! The server writes them into queries that need more tags than is allowed: `{field: "$path", server: <token>}`, or
//! an array of tokens. A token is BinData of subtype 6: the byte 8, then the key of the zeros in the blocks of a
//! value. Cost per document: one AES block for each block of the value and each token.

use nagi_bson::Value;
use nagi_error::{Code, Result, bail, err};

use super::{Form, form};
use crate::encrypted::{RAW_TOKEN, SUBTYPE, TOKEN_BYTES, ZerosKey, blocks};
use crate::expr::{Eval, Expr, ParseCx};

/// Tokens after which a loop is interruptible.
const TOKENS_PER_STEP: usize = 256;

/// Limit of the tokens of one predicate: the edges of a range.
const TOKENS_MAX: usize = 1 << 17;

/// A parsed predicate.
#[derive(Debug, Clone)]
pub struct Fle {
    pub(super) field: Expr,
    keys: Box<[ZerosKey]>,
}

pub(super) fn parse_eq(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let (field, server) = fields("$_internalFleEq", argument)?;
    let keys = Box::new([key(server)?]);
    form(Form::Fle(Fle { field: Expr::parse(field, cx)?, keys }))
}

pub(super) fn parse_between(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    const NAME: &str = "$_internalFleBetween";
    let (field, server) = fields(NAME, argument)?;
    let Value::Array(tokens) = server else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{NAME}.server' is the wrong type '{}', expected type 'array'",
            server.kind().name()
        );
    };
    if tokens.iter().nth(TOKENS_MAX).is_some() {
        bail!(Code::BAD_VALUE, "{NAME} has more than {TOKENS_MAX} tokens");
    }
    let keys = tokens.iter().map(key).collect::<Result<_>>()?;
    form(Form::Fle(Fle { field: Expr::parse(field, cx)?, keys }))
}

fn fields<'a>(name: &str, argument: Value<'a>) -> Result<(Value<'a>, Value<'a>)> {
    let Value::Doc(doc) = argument else {
        bail!(Code::Location(10065), "invalid parameter: expected an object ({name})");
    };
    for element in doc {
        if !matches!(element.name(), "field" | "server") {
            bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field '{name}.{}' is an unknown field.",
                element.name()
            );
        }
    }
    let required = |field: &str| match doc.get(field) {
        Value::Missing => Err(err!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{name}.{field}' is missing but a required field"
        )),
        value => Ok(value),
    };
    Ok((required("field")?, required("server")?))
}

fn key(token: Value<'_>) -> Result<ZerosKey> {
    if let Value::Binary(data) = token
        && data.subtype == SUBTYPE
        && let Some((&RAW_TOKEN, token)) = data.bytes.split_first()
    {
        let Some(token) = token.as_array::<TOKEN_BYTES>() else {
            bail!(Code::Location(6_373_501), "Invalid prf length");
        };
        return Ok(ZerosKey::new(token));
    }
    bail!(Code::Location(6_672_415), "Expected binData with subtype Encrypt")
}

impl Fle {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        let value = self.field.eval(cx)?;
        if value.is_nullish() {
            return Ok(Value::Null);
        }
        let Value::Binary(data) = value else { return Ok(Value::Bool(false)) };
        if data.subtype != SUBTYPE {
            return Ok(Value::Bool(false));
        }
        for block in blocks(data.bytes) {
            for keys in self.keys.chunks(TOKENS_PER_STEP) {
                cx.vars.step()?;
                if keys.iter().any(|key| key.opens(block.0)) {
                    return Ok(Value::Bool(true));
                }
            }
        }
        Ok(Value::Bool(false))
    }
}
