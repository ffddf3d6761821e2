//! Whether a document matches, and by which array position.

use bumpalo::Bump;
use nagi_bson::{Doc, Value};
use nagi_error::Result;

use super::{Filter, Pred};
use crate::expr::{Metadata, Vars};
use crate::path;

/// What a match may need besides the document. Made per document: the arena can be reset between.
#[derive(Clone, Copy)]
pub struct MatchCx<'a> {
    pub vars: &'a Vars<'a>,
    pub arena: &'a Bump,
    /// `$$NOW`, milliseconds since 1970.
    pub now_ms: i64,
    /// What the search left with the document, for `$expr`.
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
    /// Position of the array element by which the last array condition matched: what a positional
    /// `$` in an update or a projection stands for.
    pub position: Option<u32>,
}

/// Where the position goes while matching.
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
    /// Whether `doc` matches.
    ///
    /// # Errors
    /// Those of `$expr` and of regular expressions that need too many steps.
    pub fn matches<'a>(&'a self, doc: Doc<'a>, cx: &MatchCx<'a>) -> Result<bool> {
        self.test(doc, cx, &mut Position::Ignored)
    }

    /// As [`Filter::matches`], with the position of the array element that matched.
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
            Filter::AlwaysTrue => Ok(true),
            Filter::AlwaysFalse => Ok(false),
            Filter::And(all) => {
                for part in all {
                    if !part.test(doc, cx, position)? {
                        position.reset();
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            // As in MongoDB, a branch that matched does not tell its position.
            Filter::Or(any) => {
                for part in any {
                    if part.test(doc, cx, &mut Position::Ignored)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::Nor(none) => {
                for part in none {
                    if part.test(doc, cx, &mut Position::Ignored)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Not(inner) => Ok(!inner.test(doc, cx, &mut Position::Ignored)?),
            Filter::Field { path, pred } => test_field(path, pred, doc, cx, position),
            Filter::Expr(expr) => expr.matches(doc, cx),
            Filter::Schema(schema) => schema.matches(doc),
            Filter::Where(script) => script.matches(doc, cx),
        }
    }

    /// Whether one array element satisfies a parsed operand of `$elemMatch`.
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

    /// A filter of root paths against one value: the conditions inside `$elemMatch`.
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
    path: &'a crate::path::FieldPath,
    pred: &'a Pred,
    doc: Doc<'a>,
    cx: &MatchCx<'a>,
    position: &mut Position,
) -> Result<bool> {
    path::any(doc, path, pred.leaf(), &mut |value, index| {
        let matched = pred.matches(value, cx, position)?;
        if let (true, Some(index)) = (matched, index) {
            position.set(index);
        }
        Ok(matched)
    })
}
