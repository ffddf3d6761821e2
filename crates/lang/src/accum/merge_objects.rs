//! `$mergeObjects`: later fields override; a field stays where it first stood.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::{Doc, DocWriter, Element, NameTag, Value, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::expr::ParseCx;

/// The document merged so far, and a buffer for the next one.
#[derive(Default)]
pub(crate) struct MergeObjects {
    doc: Vec<u8>,
    next: Vec<u8>,
}

pub(super) fn parse(name: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    single(name, value, cx, MergeObjects::default)
}

/// The fields that are laid over a document: of a repeated name the last one counts.
struct Over<'a> {
    /// Each name once, where it first stood; whether it has been written.
    fields: Vec<(NameTag, Element<'a>, bool)>,
    /// Positions by name once there are many.
    index: HashMap<&'a str, usize, RandomState>,
}

/// Fields from which on names are hashed.
const MANY: usize = 16;

impl<'a> Over<'a> {
    fn of(doc: Doc<'a>) -> Over<'a> {
        let mut over = Over { fields: Vec::with_capacity(MANY), index: HashMap::default() };
        let mut elements = doc.iter();
        while let Some((tag, element)) = elements.next_tagged() {
            match over.find(tag, element.name()) {
                Some(at) => over.fields[at].1 = element,
                None => over.push(tag, element),
            }
        }
        over
    }

    fn push(&mut self, tag: NameTag, element: Element<'a>) {
        self.fields.push((tag, element, false));
        if self.fields.len() >= MANY {
            let new = self.fields.iter().enumerate().skip(self.index.len());
            self.index.extend(new.map(|(at, (_, element, _))| (element.name(), at)));
        }
    }

    fn find(&self, tag: NameTag, name: &str) -> Option<usize> {
        if self.fields.len() >= MANY {
            return self.index.get(name).copied();
        }
        self.fields.iter().position(|(t, e, _)| *t == tag && (tag.is_whole() || e.name() == name))
    }
}

/// Writes `base` with the fields of `over` on top.
fn merge(base: Doc<'_>, over: Doc<'_>, out: &mut DocWriter<'_>) {
    let mut over = Over::of(over);
    let mut elements = base.iter();
    while let Some((tag, element)) = elements.next_tagged() {
        match over.find(tag, element.name()) {
            Some(at) => {
                out.put_element(over.fields[at].1);
                over.fields[at].2 = true;
            }
            None => out.put_element(element),
        }
    }
    let new = over.fields.iter().filter(|(_, _, written)| !written);
    new.for_each(|(_, element, _)| out.put_element(*element));
}

impl MergeObjects {
    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }
}

impl Accumulator for MergeObjects {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        match value {
            Value::Doc(doc) => {
                self.next.clear();
                self.next.reserve(self.doc.len() + doc.len());
                merge(Doc::trusted(&self.doc), doc, &mut DocWriter::new(&mut self.next));
                std::mem::swap(&mut self.doc, &mut self.next);
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
        out.put(self.doc());
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(self.doc());
    }

    fn bytes(&self) -> usize {
        self.doc.capacity() + self.next.capacity()
    }
}
