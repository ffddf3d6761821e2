//! `$meta`: reads the metadata of a document (see [`crate::expr::Metadata`]).

use super::{Form, form};
use crate::expr::{Expr, MetaKind, ParseCx};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

/// `{$meta: "sortKey"}`, which is valid only in the projection of a `find`.
pub(in crate::expr) fn sort_key() -> Expr {
    Expr::Form(Box::new(Form::Meta(MetaKind::SortKey)))
}

pub(super) fn parse(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    let Value::String(name) = argument else {
        bail!(Code::Location(17307), "$meta only supports string arguments");
    };
    let Some(kind) = MetaKind::named(name) else {
        bail!(Code::Location(17308), "Unsupported argument to $meta: {name}");
    };
    cx.note_meta(kind);
    form(Form::Meta(kind))
}
