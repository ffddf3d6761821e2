//! The other side: owned documents of the `bson` crate, which most programs use.
//!
//! The code is written for one row and interprets nothing, so it is the fastest possible with owned documents.

use bson::{Bson, Document};
use pcre2::bytes::{Regex, RegexBuilder};

use crate::measure::Side;

fn parse(bytes: &[u8]) -> Document {
    Document::from_reader(bytes).expect("valid BSON")
}

fn write(doc: &Document, out: &mut Vec<u8>) {
    doc.to_writer(out).expect("a document can be written");
}

/// A predicate; the answer is one byte.
pub(crate) fn test(predicate: impl Fn(&Document) -> bool + 'static) -> Side {
    Box::new(move |bytes, out| out.push(u8::from(predicate(&parse(bytes)))))
}

/// A new document made from an old one.
pub(crate) fn shape(change: impl Fn(Document) -> Document + 'static) -> Side {
    Box::new(move |bytes, out| write(&change(parse(bytes)), out))
}

/// A document that is changed in place.
pub(crate) fn change(change: impl Fn(&mut Document) + 'static) -> Side {
    shape(move |mut doc| {
        change(&mut doc);
        doc
    })
}

/// A value computed from a document; the answer is `{r: value}`.
pub(crate) fn compute<V: Into<Bson>>(value: impl Fn(&Document) -> V + 'static) -> Side {
    shape(move |doc| {
        let mut out = Document::new();
        out.insert("r", value(&doc));
        out
    })
}

/// The fields of `names`, in the document's order.
pub(crate) fn include(doc: Document, names: &[&str]) -> Document {
    doc.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
}

/// A number as a double.
pub(crate) fn number(value: &Bson) -> f64 {
    match value {
        Bson::Int32(n) => f64::from(*n),
        Bson::Int64(n) => *n as f64,
        Bson::Double(n) => *n,
        _ => f64::NAN,
    }
}

pub(crate) fn int(doc: &Document, name: &str) -> i32 {
    doc.get_i32(name).expect("an int")
}

pub(crate) fn text<'a>(doc: &'a Document, name: &str) -> &'a str {
    doc.get_str(name).expect("a string")
}

/// The documents of an array.
pub(crate) fn items(doc: &Document) -> impl Iterator<Item = &Document> {
    doc.get_array("items").expect("an array").iter().filter_map(Bson::as_document)
}

/// A case-insensitive pattern, compiled with the same library as ours.
pub(crate) fn pattern(text: &str) -> Regex {
    let mut builder = RegexBuilder::new();
    builder.utf(true).caseless(true).jit_if_available(true);
    builder.build(text).expect("a pattern")
}
