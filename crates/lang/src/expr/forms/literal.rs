//! `$literal`, `$const`: a value that is not parsed as an expression.

use crate::expr::{Expr, ParseCx};
use nagi_bson::Value;
use nagi_error::Result;

pub(super) fn parse(argument: Value<'_>, _: &mut ParseCx<'_>) -> Result<Expr> {
    Ok(Expr::constant(argument))
}
