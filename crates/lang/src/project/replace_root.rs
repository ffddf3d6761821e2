//! `$replaceRoot` and `$replaceWith`: replace a document by one that is computed from it.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use crate::expr::{Deps, Eval, Expr, ParseCx};

/// A parsed `$replaceRoot` (or `$replaceWith`).
#[derive(Debug, Clone)]
pub struct ReplaceRoot {
    new_root: Expr,
    subject: &'static str,
}

impl ReplaceRoot {
    /// Parses `{newRoot: expression}`.
    pub fn parse(spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<ReplaceRoot> {
        let Value::Doc(doc) = spec else {
            bail!(
                Code::Location(40229),
                "expected an object as specification for $replaceRoot stage, got {}",
                spec.kind().name()
            );
        };
        let mut new_root = Value::Missing;
        for element in doc {
            if element.name() != "newRoot" {
                bail!(
                    Code::Location(40230),
                    "unrecognized option to $replaceRoot stage: {}, only valid option is \
                     'newRoot'.",
                    element.name()
                );
            }
            new_root = element.value();
        }
        if new_root.is_missing() {
            bail!(Code::Location(40231), "no newRoot specified for the $replaceRoot stage");
        }
        let new_root = Expr::parse(new_root, cx)?;
        Ok(ReplaceRoot { new_root, subject: "'newRoot' expression " })
    }

    /// Parses the expression of `$replaceWith`.
    pub fn parse_with(spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<ReplaceRoot> {
        let new_root = Expr::parse(spec, cx)?;
        Ok(ReplaceRoot { new_root, subject: "'replacement document' " })
    }

    /// The new document.
    pub fn apply<'a>(&'a self, cx: &Eval<'a>) -> Result<Doc<'a>> {
        match self.new_root.eval(cx)? {
            Value::Doc(doc) => Ok(doc),
            other => bail!(
                Code::Location(40228),
                "{}must evaluate to an object, but resulting value was: {other}. Type of \
                 resulting value: '{}'. Input document: {}",
                self.subject,
                other.kind().name(),
                cx.root
            ),
        }
    }

    pub fn deps(&self, deps: &mut Deps) {
        self.new_root.deps(deps);
    }
}
