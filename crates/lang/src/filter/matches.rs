//! Matching of a document against a filter, with the array position by which it matched.

use bumpalo::Bump;
use nagi_bson::{Doc, Value};
use nagi_error::Result;

use super::fields::Fields;
use super::pred::compares;
use super::{Filter, Pred};
use crate::encrypted::SAFE_CONTENT;
use crate::expr::{Metadata, Vars};
use crate::path::{self, FieldPath};

/// The context of one match beside the document. It is created per document, so that the arena can be reset in
/// between.
#[derive(Clone, Copy)]
pub struct MatchCx<'a> {
    pub vars: &'a Vars<'a>,
    pub arena: &'a Bump,
    /// `$$NOW`, milliseconds since 1970.
    pub now_ms: i64,
    /// The metadata of the document, for `$expr`.
    pub meta: Option<&'a Metadata<'a>>,
}

impl<'a> MatchCx<'a> {
    pub fn new(vars: &'a Vars<'a>, arena: &'a Bump, now_ms: i64) -> MatchCx<'a> {
        MatchCx { vars, arena, now_ms, meta: None }
    }
}

/// How a document matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchInfo {
    /// The position of the array element by which the last condition on an array matched. It is the value of a
    /// positional `$` in an update or a projection.
    pub position: Option<u32>,
}

/// The destination of the position during a match.
pub(super) enum Position {
    Ignored,
    Wanted(Option<u32>),
}

impl Position {
    pub(super) fn set(&mut self, index: u32) {
        if let Position::Wanted(at) = self {
            *at = Some(index);
        }
    }

    fn reset(&mut self) {
        if let Position::Wanted(at) = self {
            *at = None;
        }
    }
}

impl Filter {
    /// Returns true if `doc` matches.
    ///
    /// # Errors
    /// The errors of `$expr`, and of regular expressions that take too many steps.
    pub fn matches<'a>(&'a self, doc: Doc<'a>, cx: &MatchCx<'a>) -> Result<bool> {
        self.test(doc, cx, &mut Position::Ignored)
    }

    /// Like [`Filter::matches`], but returns the position of the matching array element.
    ///
    /// # Errors
    /// As for `matches`.
    pub fn matches_with_position<'a>(
        &'a self,
        doc: Doc<'a>,
        cx: &MatchCx<'a>,
    ) -> Result<Option<MatchInfo>> {
        let mut position = Position::Wanted(None);
        if !self.test(doc, cx, &mut position)? {
            return Ok(None);
        }
        let Position::Wanted(position) = position else { return Ok(Some(MatchInfo::default())) };
        Ok(Some(MatchInfo { position }))
    }

    pub(super) fn test<'a>(
        &'a self,
        doc: Doc<'a>,
        cx: &MatchCx<'a>,
        position: &mut Position,
    ) -> Result<bool> {
        match self {
            Filter::AlwaysTrue | Filter::Given(_) => Ok(true),
            Filter::AlwaysFalse => Ok(false),
            Filter::And(all) => {
                let mut fields = Fields::new(doc, all);
                for (at, part) in all.iter().enumerate() {
                    if !part.test_with(&mut fields, at, doc, cx, position)? {
                        position.reset();
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            // As in MongoDB, a matching branch of an `$or` does not set the position.
            Filter::Or(any) => any_matches(any, doc, cx),
            Filter::Nor(none) => Ok(!any_matches(none, doc, cx)?),
            Filter::Not(inner) => Ok(!inner.test(doc, cx, &mut Position::Ignored)?),
            Filter::Field { path, pred } => test_field(path, pred, doc, cx, position),
            Filter::Expr(expr) => expr.matches(doc, cx),
            Filter::Schema(schema) => schema.matches(doc),
            Filter::Text(text) => text.matches(doc),
            Filter::Where(script) => script.matches(doc, cx),
        }
    }

    /// Like `test`, for the part at `at` of a list whose fields are found in one scan.
    fn test_with<'a>(
        &'a self,
        fields: &mut Fields<'a, '_>,
        at: usize,
        doc: Doc<'a>,
        cx: &MatchCx<'a>,
        position: &mut Position,
    ) -> Result<bool> {
        match self {
            Filter::Field { path, pred } if !path.is_empty() => {
                let first = fields.value(at);
                if let Some(matched) = test_scalar(pred, first, path) {
                    return Ok(matched);
                }
                test_values(pred, first, path, cx, position)
            }
            other => other.test(doc, cx, position),
        }
    }

    /// Returns true if one array element satisfies a parsed operand of `$elemMatch`.
    pub(crate) fn matches_element<'a>(
        &'a self,
        element: Value<'a>,
        cx: &MatchCx<'a>,
    ) -> Result<bool> {
        match (self, element) {
            (Filter::Field { pred: Pred::ElemMatchValue(inner), .. }, _) => {
                inner.test_value(element, cx)
            }
            (Filter::Field { pred: Pred::ElemMatchObject(inner), .. }, Value::Doc(doc)) => {
                inner.test(doc, cx, &mut Position::Ignored)
            }
            _ => Ok(false),
        }
    }

    /// Evaluates a filter of root paths on one value: the conditions inside of `$elemMatch`.
    pub(crate) fn test_value<'a>(&'a self, value: Value<'a>, cx: &MatchCx<'a>) -> Result<bool> {
        match self {
            Filter::And(all) => {
                for part in all {
                    if !part.test_value(value, cx)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Or(any) => {
                for part in any {
                    if part.test_value(value, cx)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::Nor(none) => {
                for part in none {
                    if part.test_value(value, cx)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Not(inner) => Ok(!inner.test_value(value, cx)?),
            Filter::Field { path, pred } if path.is_empty() => {
                pred.matches(value, cx, &mut Position::Ignored)
            }
            Filter::AlwaysTrue => Ok(true),
            Filter::AlwaysFalse => Ok(false),
            other => match value {
                Value::Doc(doc) => other.test(doc, cx, &mut Position::Ignored),
                _ => Ok(false),
            },
        }
    }
}

fn test_field<'a>(
    path: &'a FieldPath,
    pred: &'a Pred,
    doc: Doc<'a>,
    cx: &MatchCx<'a>,
    position: &mut Position,
) -> Result<bool> {
    if path.is_empty() {
        return test_one(pred, Value::Doc(doc), None, cx, position);
    }
    let first = path.step(0, doc);
    if let Some(matched) = test_scalar(pred, first, path) {
        return Ok(matched);
    }
    test_values(pred, first, path, cx, position)
}

/// Tests the values at a path, whose first name has the value `first`.
fn test_values<'a>(
    pred: &'a Pred,
    first: Value<'a>,
    path: &'a FieldPath,
    cx: &MatchCx<'a>,
    position: &mut Position,
) -> Result<bool> {
    // A condition on tags replaces one on an encrypted value, which is not an array and has no position.
    let mut ignored = Position::Ignored;
    let position = if path.as_str() == SAFE_CONTENT { &mut ignored } else { position };
    path::any_from(first, path, pred.leaf(), &mut |value, index| {
        test_one(pred, value, index, cx, position)
    })
}

/// The fast path for a comparison of a top-level field that is not an array; none for other cases.
#[inline]
fn test_scalar(pred: &Pred, first: Value<'_>, path: &FieldPath) -> Option<bool> {
    match pred {
        Pred::Compare { op, value, collation }
            if path.len() == 1 && !matches!(first, Value::Array(_)) =>
        {
            Some(compares(*op, first, value.value(), *collation))
        }
        _ => None,
    }
}

fn test_one<'a>(
    pred: &'a Pred,
    value: Value<'a>,
    index: Option<u32>,
    cx: &MatchCx<'a>,
    position: &mut Position,
) -> Result<bool> {
    let matched = pred.matches(value, cx, position)?;
    if let (true, Some(index)) = (matched, index) {
        position.set(index);
    }
    Ok(matched)
}

fn any_matches<'a>(any: &'a [Filter], doc: Doc<'a>, cx: &MatchCx<'a>) -> Result<bool> {
    let mut fields = Fields::new(doc, any);
    for (at, part) in any.iter().enumerate() {
        if part.test_with(&mut fields, at, doc, cx, &mut Position::Ignored)? {
            return Ok(true);
        }
    }
    Ok(false)
}
