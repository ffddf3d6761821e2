//! Interleaved documents while they are read.

use nagi_bson::{Doc, DocWriter, Elements, Type, Value, payload_value};
use nagi_error::{Code, Result, bail};

use super::{INTERLEAVED, INTERLEAVED_ARRAY, INTERLEAVED_OBJECTS, literal, stream::Stream};

/// The state of interleaved documents.
#[derive(Debug)]
pub(super) struct Interleaved<'a> {
    reference: Doc<'a>,
    /// What the documents are: objects or arrays.
    kind: Type,
    /// False if arrays within the documents are leaves.
    arrays: bool,
    leaves: Vec<Stream<'a>>,
    /// The current document, or nothing if it is missing.
    out: Vec<u8>,
    /// True after a literal that has fields: the current document may be too deeply nested.
    nested: bool,
}

/// True for control bytes that begin interleaved documents.
pub(super) const fn begins(control: u8) -> bool {
    matches!(control, INTERLEAVED_OBJECTS | INTERLEAVED | INTERLEAVED_ARRAY)
}

impl<'a> Interleaved<'a> {
    /// Reads the reference document behind `control`, whose leaves are taken from `budget`. Returns the bytes after it.
    pub(super) fn begin(
        control: u8,
        after: &'a [u8],
        budget: &mut usize,
    ) -> Result<(Interleaved<'a>, &'a [u8])> {
        let (reference, rest) = after.split_at(literal::check(Type::Object, after)?);
        let mut documents = Interleaved {
            reference: Doc::trusted(reference),
            kind: if control == INTERLEAVED_ARRAY { Type::Array } else { Type::Object },
            arrays: control != INTERLEAVED_OBJECTS,
            leaves: Vec::new(),
            out: Vec::new(),
            nested: false,
        };
        documents.add_leaves(documents.reference.iter(), budget)?;
        if documents.leaves.is_empty() {
            bail!(
                Code::INVALID_BSON,
                "Invalid BSONColumn encoding during initialization of interleaved mode"
            )
        }
        if rest.first().is_none_or(|control| *control == 0) {
            bail!(
                Code::INVALID_BSON,
                "BSON Column interleaved encoding should contain at least one object"
            )
        }
        Ok((documents, rest))
    }

    /// The number of leaves.
    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// The fields of a value that is no leaf.
    fn fields(&self, value: Value<'a>) -> Option<Elements<'a>> {
        match value {
            Value::Doc(doc) => Some(doc.iter()),
            Value::Array(array) if self.arrays => Some(array.elements()),
            _ => None,
        }
    }

    fn add_leaves(&mut self, elements: Elements<'a>, budget: &mut usize) -> Result<()> {
        for element in elements {
            if let Some(fields) = self.fields(element.value()) {
                self.add_leaves(fields, budget)?;
                continue;
            }
            let Some(rest) = budget.checked_sub(1) else {
                bail!(Code::INVALID_BSON, "A reference object in a BSONColumn has too many fields")
            };
            *budget = rest;
            let mut leaf = Stream::new();
            leaf.set(element.value());
            self.leaves.push(leaf);
        }
        Ok(())
    }

    /// Moves to the next document. Returns the unread bytes, or none at the end of the documents, where the control
    /// byte that ends them is the next byte.
    pub(super) fn advance(&mut self, mut rest: &'a [u8]) -> Result<Option<&'a [u8]>> {
        if self.leaves[0].is_done() && rest.first() == Some(&0) {
            if self.leaves.iter().any(|leaf| !leaf.is_done()) {
                bail!(
                    Code::INVALID_BSON,
                    "Not all BSON Column interleaved encoding decoders are exhausted"
                )
            }
            return Ok(None);
        }
        let (mut out, mut leaves) =
            (std::mem::take(&mut self.out), std::mem::take(&mut self.leaves));
        out.clear();
        let mut writer = DocWriter::new(&mut out);
        let written =
            self.write(self.reference.iter(), &mut leaves.iter_mut(), &mut rest, &mut writer);
        let empty = writer.is_empty();
        writer.finish();
        if empty {
            out.clear();
        }
        (self.out, self.leaves) = (out, leaves);
        written?;
        if self.nested && !self.out.is_empty() {
            literal::check(self.kind, &self.out)?;
        }
        Ok(Some(rest))
    }

    /// Writes the fields of a part of the reference document that the current document has. The recursion is bounded
    /// by the nesting of the reference document, which was checked.
    fn write(
        &mut self,
        elements: Elements<'a>,
        leaves: &mut std::slice::IterMut<'_, Stream<'a>>,
        rest: &mut &'a [u8],
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        for element in elements {
            let Some(fields) = self.fields(element.value()) else {
                let Some(leaf) = leaves.next() else { return Ok(()) };
                out.put(element.name(), self.leaf_value(leaf, rest)?);
                continue;
            };
            // An empty document that the reference has is part of each document; another one that would be empty is
            // missing.
            let kept = fields.clone().next().is_none();
            let mut inner = Vec::new();
            let mut writer = DocWriter::new(&mut inner);
            self.write(fields, leaves, rest, &mut writer)?;
            let empty = writer.is_empty();
            writer.finish();
            if kept || !empty {
                out.put(element.name(), payload_value(element.kind(), &inner));
            }
        }
        Ok(())
    }

    fn leaf_value<'s>(
        &mut self,
        leaf: &'s mut Stream<'a>,
        rest: &mut &'a [u8],
    ) -> Result<Value<'s>> {
        if !leaf.is_done() {
            return Ok(leaf.next()?.unwrap_or(Value::Missing));
        }
        self.nested |= matches!(rest.first(), Some(0x03 | 0x04 | 0x0F));
        let (value, after) = leaf.run(rest)?;
        *rest = after;
        Ok(value)
    }

    /// The current document.
    pub(super) fn value(&self) -> Value<'_> {
        match self.out.is_empty() {
            true => Value::Missing,
            false => payload_value(self.kind, &self.out),
        }
    }
}
