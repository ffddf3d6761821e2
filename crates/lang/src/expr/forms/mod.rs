//! Forms: operators that decide themselves which operands they evaluate, how often, and with which variables.
//!
//! Each form has a variant of [`Form`], a file, and a row in [`FORMS`].

mod collated;
mod cond;
mod enc_str;
mod filter;
mod fle;
mod fresh;
mod function;
mod if_null;
mod js_emit;
mod let_vars;
mod literal;
mod logic;
mod map;
mod meta;
mod params;
mod percentile;
mod reduce;
mod switch;
mod zip;

pub(super) use collated::collated;
pub(super) use meta::sort_key;
use std::slice;

use nagi_bson::Value;
use nagi_error::Result;

use super::named::NamedCall;
use super::{Eval, Expr, MetaKind, ParseCx};
use crate::collation::Collation;

/// One form and its operands.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "few per expression, and read for every document")]
pub enum Form {
    And(Box<[Expr]>),
    Collated(collated::Collated),
    Cond(Box<[Expr; 3]>),
    EncStr(enc_str::EncStr),
    Filter(filter::Filter),
    Fle(fle::Fle),
    Fresh(fresh::Fresh),
    Function(function::Function),
    IfNull(Box<[Expr]>),
    JsEmit(js_emit::JsEmit),
    Let(let_vars::Let),
    Map(map::Map),
    Meta(MetaKind),
    Named(NamedCall),
    Or(Box<[Expr]>),
    Percentile(crate::accum::Shares),
    Reduce(reduce::Reduce),
    Switch(switch::Switch),
    Zip(zip::Zip),
}

/// The name of a form and its parser.
pub(super) struct FormRow {
    pub(super) name: &'static str,
    pub(super) parse: fn(Value<'_>, &mut ParseCx<'_>) -> Result<Expr>,
}

pub(super) static FORMS: &[FormRow] = &[
    FormRow { name: "$_internalFleBetween", parse: fle::parse_between },
    FormRow { name: "$_internalFleEq", parse: fle::parse_eq },
    FormRow { name: "$_internalJsEmit", parse: js_emit::parse },
    FormRow { name: "$and", parse: logic::parse_and },
    FormRow { name: "$cond", parse: cond::parse },
    FormRow { name: "$const", parse: literal::parse },
    FormRow { name: "$createObjectId", parse: fresh::parse_object_id },
    FormRow { name: "$currentDate", parse: fresh::parse_date },
    FormRow {
        name: "$encStrContains",
        parse: |value, cx| enc_str::parse(&enc_str::CONTAINS, value, cx),
    },
    FormRow {
        name: "$encStrEndsWith",
        parse: |value, cx| enc_str::parse(&enc_str::ENDS_WITH, value, cx),
    },
    FormRow {
        name: "$encStrNormalizedEq",
        parse: |value, cx| enc_str::parse(&enc_str::NORMALIZED_EQ, value, cx),
    },
    FormRow {
        name: "$encStrStartsWith",
        parse: |value, cx| enc_str::parse(&enc_str::STARTS_WITH, value, cx),
    },
    FormRow { name: "$filter", parse: filter::parse },
    FormRow { name: "$function", parse: function::parse },
    FormRow { name: "$ifNull", parse: if_null::parse },
    FormRow { name: "$let", parse: let_vars::parse },
    FormRow { name: "$literal", parse: literal::parse },
    FormRow { name: "$map", parse: map::parse },
    FormRow { name: "$median", parse: percentile::parse_median },
    FormRow { name: "$meta", parse: meta::parse },
    FormRow { name: "$or", parse: logic::parse_or },
    FormRow { name: "$percentile", parse: percentile::parse_percentile },
    FormRow { name: "$reduce", parse: reduce::parse },
    FormRow { name: "$switch", parse: switch::parse },
    FormRow { name: "$zip", parse: zip::parse },
];

impl Form {
    pub(super) fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        match self {
            Form::And(args) => logic::eval_and(args, cx),
            Form::Collated(form) => form.eval(cx),
            Form::Cond(args) => cond::eval(args, cx),
            Form::EncStr(form) => form.eval(cx),
            Form::Filter(form) => form.eval(cx),
            Form::Fle(form) => form.eval(cx),
            Form::Fresh(fresh) => Ok(fresh.eval(cx)),
            Form::Function(form) => form.eval(cx),
            Form::IfNull(args) => if_null::eval(args, cx),
            Form::JsEmit(form) => form.eval(cx),
            Form::Let(form) => form.eval(cx),
            Form::Map(form) => form.eval(cx),
            Form::Meta(kind) => Ok(cx.meta.map_or(Value::Missing, |meta| meta.get(*kind))),
            Form::Or(args) => logic::eval_or(args, cx),
            Form::Percentile(shares) => percentile::eval(shares, cx),
            Form::Reduce(form) => form.eval(cx),
            Form::Named(call) => call.eval(cx),
            Form::Switch(form) => form.eval(cx),
            Form::Zip(form) => form.eval(cx),
        }
    }

    /// The operands, if the form is true exactly where all of them are, and the collation that it sets for them.
    pub(super) fn conjuncts(&self) -> Option<(&[Expr], Option<&'static Collation>)> {
        match self {
            Form::And(args) => Some((args, None)),
            Form::Collated(form) => Some((slice::from_ref(&form.expr), Some(form.collation))),
            _ => None,
        }
    }

    /// The operands of an `$and` or an `$or`.
    pub(super) fn operands(&self) -> Option<(super::Logic, &[Expr])> {
        match self {
            Form::And(args) => Some((super::Logic::And, args)),
            Form::Or(args) => Some((super::Logic::Or, args)),
            _ => None,
        }
    }

    /// Returns true if equal operands give equal results.
    pub(super) fn is_pure(&self) -> bool {
        !matches!(self, Form::Function(_) | Form::JsEmit(_) | Form::Meta(_) | Form::Fresh(_))
    }

    /// Returns true if each evaluation gives a new value.
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Form::Fresh(_))
    }

    pub(super) fn for_each_child(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Form::And(args) | Form::Or(args) | Form::IfNull(args) => args.iter().for_each(visit),
            Form::Collated(form) => visit(&form.expr),
            Form::Cond(args) => args.iter().for_each(visit),
            Form::EncStr(form) => visit(&form.input),
            Form::Filter(form) => form.children().iter().for_each(visit),
            Form::Fle(form) => visit(&form.field),
            Form::Function(form) => visit(&form.args),
            Form::JsEmit(form) => visit(&form.this),
            Form::Let(form) => form.children().for_each(visit),
            Form::Map(form) => form.children().into_iter().for_each(visit),
            Form::Meta(_) | Form::Fresh(_) => {}
            Form::Percentile(shares) => visit(&shares.input),
            Form::Reduce(form) => form.children().iter().for_each(visit),
            Form::Named(call) => call.children().for_each(visit),
            Form::Switch(form) => form.children().for_each(visit),
            Form::Zip(form) => form.children().for_each(visit),
        }
    }

    pub(super) fn for_each_child_mut(
        &mut self,
        visit: &mut dyn FnMut(&mut Expr) -> Result<()>,
    ) -> Result<()> {
        match self {
            Form::And(args) | Form::Or(args) | Form::IfNull(args) => {
                args.iter_mut().try_for_each(visit)
            }
            Form::Collated(form) => visit(&mut form.expr),
            Form::Cond(args) => args.iter_mut().try_for_each(visit),
            Form::EncStr(form) => visit(&mut form.input),
            Form::Filter(form) => form.children_mut().iter_mut().try_for_each(visit),
            Form::Fle(form) => visit(&mut form.field),
            Form::Function(form) => visit(&mut form.args),
            Form::JsEmit(form) => visit(&mut form.this),
            Form::Let(form) => form.children_mut().try_for_each(visit),
            Form::Map(form) => form.children_mut().into_iter().try_for_each(visit),
            Form::Meta(_) | Form::Fresh(_) => Ok(()),
            Form::Percentile(shares) => visit(&mut shares.input),
            Form::Reduce(form) => form.children_mut().iter_mut().try_for_each(visit),
            Form::Named(call) => call.children_mut().try_for_each(visit),
            Form::Switch(form) => form.children_mut().try_for_each(visit),
            Form::Zip(form) => form.children_mut().try_for_each(visit),
        }
    }
}

/// Wraps a form into an expression.
fn form(form: Form) -> Result<Expr> {
    Ok(Expr::Form(Box::new(form)))
}
