//! `$redact`: an expression decides for each document, at every depth, if it is kept, pruned or descended into.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};

use crate::expr::{Deps, Eval, Expr, ParseCx};

/// A parsed `$redact`.
#[derive(Debug, Clone)]
pub struct Redact {
    /// Evaluated with the current (sub)document as `$$CURRENT` and the whole document as `$$ROOT`.
    decision: Expr,
}

enum Decision {
    Keep,
    Prune,
    Descend,
}

impl Redact {
    /// Parses the expression. `cx` must be created with [`ParseCx::for_redact`].
    pub fn parse(spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Redact> {
        let decision = cx.with_locals(&["CURRENT"], |cx| Expr::parse(spec, cx))?;
        Ok(Redact { decision })
    }

    /// Writes the remaining part of `cx.root`. Returns false if the whole document is pruned.
    pub fn apply<'a>(&'a self, cx: &Eval<'a>, out: &mut DocWriter<'_>) -> Result<bool> {
        self.write(cx.root, cx, out)
    }

    fn write<'a>(&'a self, doc: Doc<'a>, cx: &Eval<'a>, out: &mut DocWriter<'_>) -> Result<bool> {
        match self.decide(doc, cx)? {
            Decision::Prune => return Ok(false),
            Decision::Keep => out.extend(doc),
            Decision::Descend => {
                for element in doc {
                    self.write_field(element.name(), element.value(), cx, out)?;
                }
            }
        }
        Ok(true)
    }

    fn decide<'a>(&'a self, doc: Doc<'a>, cx: &Eval<'a>) -> Result<Decision> {
        let (inner, _) = cx.bind(0, Value::Doc(doc));
        match self.decision.eval(&inner)? {
            Value::String("keep") => Ok(Decision::Keep),
            Value::String("prune") => Ok(Decision::Prune),
            Value::String("descend") => Ok(Decision::Descend),
            other => bail!(
                Code::Location(17053),
                "$redact's expression should not return anything aside from the variables \
                 $$KEEP, $$DESCEND, and $$PRUNE, but returned {other}"
            ),
        }
    }

    fn write_field<'a>(
        &'a self,
        name: &str,
        value: Value<'a>,
        cx: &Eval<'a>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        match value {
            Value::Doc(doc) => {
                let mark = out.mark();
                if !out.doc(name, |out| self.write(doc, cx, out))? {
                    out.truncate(mark);
                }
            }
            Value::Array(items) => out.array(name, |out| self.write_items(items, cx, out))?,
            scalar => out.put(name, scalar),
        }
        Ok(())
    }

    fn write_items<'a>(
        &'a self,
        items: Array<'a>,
        cx: &Eval<'a>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<()> {
        for item in items.iter() {
            match item {
                Value::Doc(doc) => {
                    let kept = cx.doc_if(|out| self.write(doc, cx, out))?;
                    if let Some(kept) = kept {
                        out.push(kept);
                    }
                }
                Value::Array(inner) => out.array(|out| self.write_items(inner, cx, out))?,
                scalar => out.push(scalar),
            }
        }
        Ok(())
    }

    pub fn deps(&self, deps: &mut Deps) {
        deps.whole = true;
        self.decision.deps(deps);
    }
}
