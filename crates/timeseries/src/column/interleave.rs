//! Interleaved documents while they are written.
//!
//! Documents with fields of a reference document, in its order, become a column for each leaf of it. The runs of these
//! columns are written in the order in which a reader needs them.

use nagi_bson::{Doc, DocBuf, Element, Value, append_payload};

use super::{Encoder, INTERLEAVED_OBJECTS, literal};
use crate::simple8b::slots_of;

/// Documents of which each leaf is a column.
#[derive(Clone, Debug)]
pub(super) struct Interleaver {
    reference: DocBuf,
    leaves: Vec<Encoder>,
    /// True if the reference has a document without fields: then no document may be missing.
    has_empty: bool,
    rows: usize,
}

/// A run of one leaf.
struct Run {
    /// The first row that it has a value for.
    row: usize,
    leaf: usize,
    from: usize,
    to: usize,
}

impl Interleaver {
    /// None if the reference has no leaf, or more than `leaves_max`.
    pub(super) fn new(reference: Doc<'_>, leaves_max: usize) -> Option<Interleaver> {
        let (mut leaves, mut has_empty) = (Vec::new(), false);
        add_leaves(reference, leaves_max, &mut leaves, &mut has_empty)?;
        let reference = reference.to_buf();
        (!leaves.is_empty()).then_some(Interleaver { reference, leaves, has_empty, rows: 0 })
    }

    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Adds a value; false if it is not made of fields of the reference.
    pub(super) fn push(&mut self, value: Value<'_>) -> bool {
        let mut values = Vec::with_capacity(self.leaves.len());
        let fits = match value {
            Value::Missing if !self.has_empty => {
                values.resize(self.leaves.len(), Value::Missing);
                true
            }
            Value::Doc(doc) => divide(self.reference.as_doc(), doc, &mut values) == Some(true),
            _ => false,
        };
        if fits {
            self.leaves.iter_mut().zip(values).for_each(|(leaf, value)| leaf.push(value));
            self.rows += 1;
        }
        fits
    }

    /// Writes the documents with their end.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        out.push(INTERLEAVED_OBJECTS);
        append_payload(out, Value::Doc(self.reference.as_doc()));
        let (mut bytes, mut runs) = (Vec::new(), Vec::new());
        for (leaf, encoder) in self.leaves.iter().enumerate() {
            let mut from = bytes.len();
            encoder.append_to(&mut bytes);
            // The end of the column is none of its runs.
            bytes.pop();
            let mut row = 0;
            while let Some((len, rows)) = run(&bytes[from..]) {
                runs.push(Run { row, leaf, from, to: from + len });
                (from, row) = (from + len, row + rows);
            }
            debug_assert_eq!(row, self.rows);
        }
        // A reader takes the next run of a leaf at the row where the one before ends, leaf by leaf.
        runs.sort_unstable_by_key(|run| (run.row, run.leaf));
        runs.iter().for_each(|run| out.extend_from_slice(&bytes[run.from..run.to]));
        out.push(0);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let leaf = |leaf: &Encoder| size_of::<Encoder>() + leaf.heap_bytes();
        self.reference.as_bytes().len() + self.leaves.iter().map(leaf).sum::<usize>()
    }

    /// The approximate size of what `append_to` writes.
    pub(super) fn bytes(&self) -> usize {
        self.reference.as_bytes().len() + self.leaves.iter().map(Encoder::bytes).sum::<usize>()
    }
}

fn add_leaves(
    reference: Doc<'_>,
    leaves_max: usize,
    leaves: &mut Vec<Encoder>,
    has_empty: &mut bool,
) -> Option<()> {
    for element in reference {
        match element.value() {
            Value::Doc(inner) if inner.is_empty() => *has_empty = true,
            Value::Doc(inner) => add_leaves(inner, leaves_max, leaves, has_empty)?,
            value => leaves.push(Encoder::behind(value)),
        }
        if leaves.len() > leaves_max {
            return None;
        }
    }
    Some(())
}

/// Appends the value of each leaf of the reference. None if the document cannot be made of the reference; true if it
/// has any field of it: a document without would be read as missing.
fn divide<'d>(reference: Doc<'_>, doc: Doc<'d>, values: &mut Vec<Value<'d>>) -> Option<bool> {
    let mut fields = doc.iter().peekable();
    let mut has_any = false;
    for own in reference {
        let field = fields.next_if(|field| field.name() == own.name());
        has_any |= field.is_some();
        divide_field(own.value(), field, values)?;
    }
    fields.next().is_none().then_some(has_any)
}

fn divide_field<'d>(
    own: Value<'_>,
    field: Option<Element<'d>>,
    values: &mut Vec<Value<'d>>,
) -> Option<()> {
    match (own, field.map(|field| field.value())) {
        (Value::Doc(own), Some(Value::Doc(inner))) if own.is_empty() => {
            inner.is_empty().then_some(())
        }
        (Value::Doc(own), Some(Value::Doc(inner))) => divide(own, inner, values)?.then_some(()),
        (Value::Doc(own), None) => missing(own, values),
        (Value::Doc(_), Some(_)) | (_, Some(Value::Doc(_))) => None,
        (_, value) => {
            values.push(value.unwrap_or(Value::Missing));
            Some(())
        }
    }
}

/// The leaves of a document that is missing. None if it has one without fields, which is never missing.
fn missing(reference: Doc<'_>, values: &mut Vec<Value<'_>>) -> Option<()> {
    if reference.is_empty() {
        return None;
    }
    reference.iter().try_for_each(|own| match own.value() {
        Value::Doc(inner) => missing(inner, values),
        _ => {
            values.push(Value::Missing);
            Some(())
        }
    })
}

/// The length of the run at the beginning, and the number of its values.
fn run(bytes: &[u8]) -> Option<(usize, usize)> {
    let (control, after) = bytes.split_first()?;
    if let Some(kind) = nagi_bson::Type::from_byte(*control) {
        // Type and empty name.
        return Some((2 + literal::length(kind, &after[1..])?, 1));
    }
    let words = (usize::from(control & 0x0F) + 1) * 8;
    let rows = after[..words].chunks_exact(8).map(|word| {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        slots_of(word)
    });
    Some((1 + words, rows.sum()))
}
