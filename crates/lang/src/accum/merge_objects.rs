//! `$mergeObjects`: later fields override; a field stays where it first stood.

use nagi_bson::{Doc, DocBuf, DocWriter, Value, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::expr::ParseCx;

/// The document merged so far.
#[derive(Default)]
pub(crate) struct MergeObjects(DocBuf);

pub(super) fn parse(name: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    single(name, value, cx, MergeObjects::default)
}

/// Writes `base` with the fields of `over` on top.
fn merge(base: Doc<'_>, over: Doc<'_>, out: &mut DocWriter<'_>) {
    for element in base {
        // Of a repeated name the last one counts.
        let newer = over.iter().filter(|e| e.name() == element.name()).last();
        out.put(element.name(), newer.map_or(element.value(), |e| e.value()));
    }
    for (at, element) in over.iter().enumerate() {
        let repeated = over.iter().take(at).any(|e| e.name() == element.name());
        if base.element(element.name()).is_none() && !repeated {
            let last = over.iter().filter(|e| e.name() == element.name()).last();
            out.put(element.name(), last.map_or(element.value(), |e| e.value()));
        }
    }
}

impl Accumulator for MergeObjects {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        match value {
            Value::Doc(doc) => {
                self.0 = DocBuf::build(|out| merge(self.0.as_doc(), doc, out));
                Ok(())
            }
            value if value.is_nullish() => Ok(()),
            other => bail!(
                Code::Location(40400),
                "$mergeObjects requires object inputs, but input {other} is of type {}",
                other.kind().name()
            ),
        }
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        self.add(part)
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.put(self.0.as_doc());
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(self.0.as_doc());
    }

    fn bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}
