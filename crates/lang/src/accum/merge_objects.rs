//! `$mergeObjects`: later values replace earlier ones; a field keeps the position of its first occurrence.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use nagi_bson::{Doc, DocWriter, Element, NameTag, Value, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::expr::ParseCx;

/// The merged document so far, and a buffer for the next one.
#[derive(Default)]
pub(crate) struct MergeObjects {
    doc: Vec<u8>,
    next: Vec<u8>,
    /// The names in `doc`, if it is large. They allow appending new fields to `doc` without a copy of it.
    names: HashSet<Box<str>, RandomState>,
}

/// The length from which on the names of the merged document are collected.
const LARGE_BYTES: usize = 4 << 10;

pub(super) fn parse(name: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    single(name, value, cx, MergeObjects::default)
}

/// The fields of a document that is merged over another one. Of a repeated name the last value counts.
struct Over<'a> {
    /// Each name once, at its first position, with a flag that it has been written.
    fields: Vec<(NameTag, Element<'a>, bool)>,
    /// The index of each name, if there are many.
    index: HashMap<&'a str, usize, RandomState>,
}

/// The number of fields from which on names are hashed.
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

/// Writes `base` merged with the fields of `over`.
fn merge(base: Doc<'_>, mut over: Over<'_>, out: &mut DocWriter<'_>) {
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

    fn lay(&mut self, doc: Doc<'_>) {
        let over = Over::of(doc);
        if self.doc.len() >= LARGE_BYTES && self.names.is_empty() {
            self.names =
                Doc::trusted(&self.doc).iter().map(|element| element.name().into()).collect();
        }
        let known = self.names.len();
        if known > 0 {
            self.names.extend(over.fields.iter().map(|(_, element, _)| Box::from(element.name())));
            if self.names.len() == known + over.fields.len() {
                let mut out = DocWriter::resume(&mut self.doc);
                over.fields.iter().for_each(|(_, element, _)| out.put_element(*element));
                return;
            }
        }
        self.next.clear();
        self.next.reserve(self.doc.len() + doc.len());
        merge(Doc::trusted(&self.doc), over, &mut DocWriter::new(&mut self.next));
        std::mem::swap(&mut self.doc, &mut self.next);
    }
}

impl Accumulator for MergeObjects {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        match value {
            Value::Doc(doc) => {
                self.lay(doc);
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
        // Assumes that a name is about as long as its field, or as its entry.
        let names = if self.names.is_empty() { 0 } else { self.doc.len() + 32 * self.names.len() };
        self.doc.capacity() + self.next.capacity() + names
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;

    use super::*;

    #[test]
    fn a_large_result_has_each_field_where_it_first_stood_with_its_last_value() {
        let mut merged = MergeObjects::default();
        let mut expected: Vec<(String, i64)> = Vec::new();
        // Tests new fields, existing fields, and both together, before and after the names are collected.
        for turn in 0..2000_i64 {
            let mut numbers = match turn % 3 {
                0 => vec![turn],
                1 => vec![turn / 2, turn / 3],
                _ => vec![turn / 5, turn, turn + 1],
            };
            numbers.dedup();
            let doc =
                DocBuf::build(|out| numbers.iter().for_each(|n| out.put(&format!("f{n}"), turn)));
            merged.add(Value::Doc(doc.as_doc())).unwrap();
            for name in numbers.iter().map(|n| format!("f{n}")) {
                match expected.iter_mut().find(|(known, _)| *known == name) {
                    Some(known) => known.1 = turn,
                    None => expected.push((name, turn)),
                }
            }
        }
        assert!(merged.doc.len() > 2 * LARGE_BYTES);
        let fields = merged
            .doc()
            .iter()
            .map(|field| (field.name().to_owned(), nagi_bson::number::as_i64_exact(field.value())));
        assert_eq!(
            fields.collect::<Vec<_>>(),
            expected.into_iter().map(|(n, v)| (n, Some(v))).collect::<Vec<_>>()
        );
    }
}
