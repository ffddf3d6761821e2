//! Finds several fields of a document in one scan over its elements, for the parts of one `$and` or `$or`.

use nagi_bson::{Doc, Elements, NameTag, Value};

use super::Filter;
use crate::path::FieldPath;

/// The number of parts that share one scan. Each further group of four parts has a scan of its own.
const TOGETHER: usize = 4;

/// Finds the first path component of each part. The scan stops as soon as the requested field is found, and continues
/// from there for the next one. If a name occurs twice in the document, the first one counts, as everywhere.
pub(super) struct Fields<'a, 'f> {
    doc: Doc<'a>,
    parts: &'f [Filter],
    elements: Elements<'a>,
    /// The index of the first part of the current group.
    from: usize,
    /// The tags of the fields of the group that are not yet found.
    tags: [NameTag; TOGETHER],
    /// The values of the group; `Missing` until found.
    values: [Value<'a>; TOGETHER],
}

impl<'a, 'f> Fields<'a, 'f> {
    #[inline]
    pub(super) fn new(doc: Doc<'a>, parts: &'f [Filter]) -> Fields<'a, 'f> {
        let mut fields = Fields {
            doc,
            parts,
            elements: doc.iter(),
            from: 0,
            tags: [NameTag::NONE; TOGETHER],
            values: [Value::Missing; TOGETHER],
        };
        fields.choose();
        fields
    }

    #[inline]
    fn choose(&mut self) {
        for (tag, part) in self.tags.iter_mut().zip(&self.parts[self.from..]) {
            if let Some(path) = path(part) {
                *tag = path.tag(0);
            }
        }
    }

    #[cold]
    fn begin(&mut self, from: usize) {
        self.from = from;
        self.elements = self.doc.iter();
        self.tags = [NameTag::NONE; TOGETHER];
        self.values = [Value::Missing; TOGETHER];
        self.choose();
    }

    /// The value of the first path component of the part at `at`. Parts must be requested in ascending order.
    pub(super) fn value(&mut self, at: usize) -> Value<'a> {
        if at >= self.from + TOGETHER {
            self.begin(at);
        }
        let wanted = at - self.from;
        while self.tags[wanted] != NameTag::NONE {
            let Some((which, element)) = self.elements.find_any(&self.tags) else { break };
            for found in 0..TOGETHER {
                if which >> found & 1 == 0 {
                    continue;
                }
                let whole = self.tags[found].is_whole();
                if whole || self.is_named(found, element.name()) {
                    self.tags[found] = NameTag::NONE;
                    self.values[found] = element.value();
                }
            }
        }
        self.values[wanted]
    }

    fn is_named(&self, found: usize, name: &str) -> bool {
        path(&self.parts[self.from + found]).is_some_and(|path| path.part(0) == name)
    }
}

/// The path of a leaf that reads a field of the document.
fn path(filter: &Filter) -> Option<&FieldPath> {
    match filter {
        Filter::Field { path, .. } if !path.is_empty() => Some(path),
        _ => None,
    }
}
