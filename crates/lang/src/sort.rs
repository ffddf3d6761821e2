//! Sort specifications and sort keys.
//!
//! A key is a document with one field per part of the specification, with empty names. Two keys are compared part by
//! part in BSON order, each part in its direction.
//!
//! A document whose path leads into an array has several candidate keys, one per element. An ascending sort takes the
//! smallest and a descending sort the greatest one (of the whole compound key, as an index scan would find it first).
//! An empty array sorts as undefined, below null; a missing field sorts as null.
//!
//! ```text
//!   {a: 1}      {a: [3, 1, 2]}    key {"": 1}        {a: 1, b: -1}    {a: 5, b: "x"}    key {"": 5, "": "x"}
//!   {a: -1}     {a: [3, 1, 2]}    key {"": 3}
//! ```
//!
//! The cost is one pass over the document's fields per part. Without arrays, only the key itself is allocated.

use std::cmp::Ordering;

use nagi_bson::{Array, Doc, DocWriter, Value, number};
use nagi_error::{Code, Result, bail};

use crate::collation::{self, Collation};
use crate::expr::{MetaKind, MetaSet, Metadata};
use crate::path::FieldPath;

/// The maximal number of parts of a specification, as for an index.
pub const SORT_PARTS_MAX: usize = 32;

/// A parsed sort specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortSpec {
    parts: Box<[SortPart]>,
    collation: Option<&'static Collation>,
}

/// One part: a path or metadata, and a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortPart {
    pub path: FieldPath,
    pub descending: bool,
    /// The kind of metadata of `{$meta: ...}`, which replaces the path's value.
    pub meta: Option<MetaKind>,
}

impl SortSpec {
    /// Parses `{a: 1, b: -1}`.
    ///
    /// # Errors
    /// 15974 and 15975 for invalid directions, 40352, 40353, 15998 and 16410 for invalid names, 7472500 for a
    /// duplicate name, 13103 for too many parts, and those of invalid `$meta`s.
    pub fn parse(spec: Doc<'_>) -> Result<SortSpec> {
        let mut parts: Vec<SortPart> = Vec::new();
        for element in spec {
            let name = element.name();
            check_name(name)?;
            if parts.len() == SORT_PARTS_MAX {
                bail!(
                    Code::Location(13103),
                    "too many compound keys: a sort specification may have at most {SORT_PARTS_MAX} \
                     fields"
                );
            }
            if parts.iter().any(|part| part.path.as_str() == name) {
                bail!(
                    Code::Location(7_472_500),
                    "$sort key must not contain duplicate keys (duplicate: '{name}')"
                );
            }
            let path = FieldPath::new(name);
            parts.push(match element.value() {
                Value::Doc(meta) => {
                    SortPart { path, descending: true, meta: Some(parse_meta(meta)?) }
                }
                value => SortPart { path, descending: is_descending(name, value)?, meta: None },
            });
        }
        Ok(SortSpec { parts: parts.into(), collation: None })
    }

    /// The order of distances that documents have as metadata, the nearest first.
    pub fn nearest_first() -> SortSpec {
        let meta = Some(MetaKind::GeoDistance);
        let part = SortPart { path: FieldPath::new("distance"), descending: false, meta };
        SortSpec { parts: [part].into(), collation: None }
    }

    /// Sets the collation by which strings compare.
    #[must_use]
    pub fn collated(self, collation: Option<&'static Collation>) -> SortSpec {
        SortSpec { collation, ..self }
    }

    /// The collation of strings; without one, they compare by their bytes.
    pub fn collation(&self) -> Option<&'static Collation> {
        self.collation
    }

    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The kinds of metadata in the specification.
    pub fn metas(&self) -> MetaSet {
        let kinds = self.parts.iter().filter_map(|part| part.meta);
        kinds.fold(MetaSet::NONE, |all, kind| all | MetaSet::of(kind))
    }

    /// Returns true if any part needs metadata.
    pub fn needs_meta(&self) -> bool {
        self.parts.iter().any(|part| part.meta.is_some())
    }

    /// Appends the sort key of `doc`, a document without metadata, to `out`.
    ///
    /// # Errors
    /// 2 if two parts lead into different arrays.
    pub fn key(&self, doc: Doc<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.key_with(doc, &Metadata::default(), out)
    }

    /// Like [`SortSpec::key`], for a document with metadata.
    ///
    /// # Errors
    /// As for `key`.
    pub fn key_with(&self, doc: Doc<'_>, meta: &Metadata<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut values = [Value::Null; SORT_PARTS_MAX];
        let values = &mut values[..self.parts.len()];
        let mut arrays = false;
        for (value, part) in values.iter_mut().zip(&self.parts) {
            let found = match part.meta {
                Some(kind) => Some(found_meta(meta, kind)),
                None => plain(doc, &part.path),
            };
            match found {
                Some(found) => *value = found,
                None => arrays = true,
            }
        }
        if arrays {
            return self.key_of_arrays(doc, meta, out);
        }
        write(values, out);
        Ok(())
    }

    /// Compares two keys of [`SortSpec::key`].
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a, b) = (Doc::trusted(a), Doc::trusted(b));
        for ((a, b), part) in a.iter().zip(b.iter()).zip(&self.parts) {
            let order = collation::values(a.value(), b.value(), self.collation);
            if order.is_ne() {
                return if part.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }

    /// Compares two documents; it computes both keys.
    ///
    /// # Errors
    /// As for [`SortSpec::key`].
    pub fn compare_docs(&self, a: Doc<'_>, b: Doc<'_>) -> Result<Ordering> {
        let (mut key_a, mut key_b) = (Vec::new(), Vec::new());
        self.key(a, &mut key_a)?;
        self.key(b, &mut key_b)?;
        Ok(self.compare(&key_a, &key_b))
    }

    fn key_of_arrays(&self, doc: Doc<'_>, meta: &Metadata<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut best = Best { spec: self, bytes: Vec::new(), scratch: Vec::new() };
        let of_meta = |part: &SortPart| part.meta.map(|kind| found_meta(meta, kind));
        let fixed = self.parts.iter().map(|part| of_meta(part).unwrap_or(Value::Null)).collect();
        let todo = self.parts.iter().map(|part| part.meta.is_none().then_some(0)).collect();
        best.expand(doc, fixed, todo)?;
        out.extend_from_slice(&best.bytes);
        Ok(())
    }
}

/// The value of a kind of metadata in a sort; null if it is missing.
fn found_meta<'a>(meta: &Metadata<'a>, kind: MetaKind) -> Value<'a> {
    match meta.get(kind) {
        Value::Missing => Value::Null,
        value => value,
    }
}

/// The value at a path without arrays on the path or at its end; `None` if there is an array.
fn plain<'a>(doc: Doc<'a>, path: &FieldPath) -> Option<Value<'a>> {
    let mut value = Value::Doc(doc);
    for at in 0..path.len() {
        value = match value {
            Value::Doc(doc) => doc.get(path.part(at)),
            _ => return Some(Value::Null),
        };
        match value {
            Value::Array(_) => return None,
            Value::Missing => return Some(Value::Null),
            _ => {}
        }
    }
    Some(value)
}

fn write(values: &[Value<'_>], out: &mut Vec<u8>) {
    let mut writer = DocWriter::new(out);
    for value in values {
        writer.put("", *value);
    }
}

/// The best key so far among the candidate keys of a document.
struct Best<'s> {
    spec: &'s SortSpec,
    bytes: Vec<u8>,
    scratch: Vec<u8>,
}

impl Best<'_> {
    /// Offers every candidate key of `doc`. `todo` contains the component from which each part continues; `None` if
    /// the value of the part is already in `fixed`.
    fn expand<'a>(
        &mut self,
        doc: Doc<'a>,
        mut fixed: Vec<Value<'a>>,
        mut todo: Vec<Option<usize>>,
    ) -> Result<()> {
        let spec = self.spec;
        let mut array: Option<Array<'a>> = None;
        for (at, part) in spec.parts.iter().enumerate() {
            let Some(from) = todo[at] else { continue };
            match advance(doc, &part.path, from) {
                Step::Array(found, from) => {
                    if array.is_some_and(|a| a.as_bytes().as_ptr() != found.as_bytes().as_ptr()) {
                        bail!(Code::BAD_VALUE, "cannot sort with keys that are parallel arrays");
                    }
                    array = Some(found);
                    todo[at] = Some(from);
                }
                Step::Value(value) => {
                    fixed[at] = if value.is_missing() { Value::Null } else { value };
                    todo[at] = None;
                }
            }
        }
        match array {
            None => self.offer(&fixed),
            Some(array) => self.expand_array(array, fixed, todo)?,
        }
        Ok(())
    }

    /// Continues with each element of the array at which the unfinished parts stopped.
    fn expand_array<'a>(
        &mut self,
        array: Array<'a>,
        fixed: Vec<Value<'a>>,
        todo: Vec<Option<usize>>,
    ) -> Result<()> {
        let spec = self.spec;
        let ends = |at: usize| todo[at] == Some(spec.parts[at].path.len());
        if array.is_empty() {
            let mut fixed = fixed;
            for at in 0..todo.len() {
                if todo[at].is_some() {
                    fixed[at] = if ends(at) { Value::Undefined } else { Value::Null };
                }
            }
            self.offer(&fixed);
            return Ok(());
        }
        for element in array.iter() {
            let mut fixed = fixed.clone();
            let mut rest = todo.clone();
            for at in 0..todo.len() {
                if ends(at) {
                    fixed[at] = element;
                    rest[at] = None;
                }
            }
            let doc = element.as_doc().unwrap_or(Doc::EMPTY);
            self.expand(doc, fixed, rest)?;
        }
        Ok(())
    }

    fn offer(&mut self, values: &[Value<'_>]) {
        self.scratch.clear();
        write(values, &mut self.scratch);
        if self.bytes.is_empty() || self.spec.compare(&self.scratch, &self.bytes).is_lt() {
            std::mem::swap(&mut self.bytes, &mut self.scratch);
        }
    }
}

/// The place where a walk stopped.
enum Step<'a> {
    Value(Value<'a>),
    /// An array, and the component with which to continue below its elements.
    Array(Array<'a>, usize),
}

/// Walks from component `from` until the path ends or meets an array. A component that is a position of the array
/// steps into it. An array that is reached in this way at the end of the path counts as a whole.
fn advance<'a>(doc: Doc<'a>, path: &FieldPath, from: usize) -> Step<'a> {
    let mut value = Value::Doc(doc);
    let mut stepped = false;
    for at in from..path.len() {
        (value, stepped) = match value {
            Value::Doc(doc) => (doc.get(path.part(at)), false),
            Value::Array(array) => {
                let element = path.index(at).map(|index| array.get(index as usize));
                match element.filter(|element| !element.is_missing()) {
                    Some(element) => (element, true),
                    None => return Step::Array(array, at),
                }
            }
            _ => return Step::Value(Value::Missing),
        };
    }
    match value {
        Value::Array(array) if !stepped => Step::Array(array, path.len()),
        value => Step::Value(value),
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        bail!(Code::Location(40352), "FieldPath cannot be constructed with empty string");
    }
    if name.ends_with('.') {
        bail!(Code::Location(40353), "FieldPath must not end with a '.'.");
    }
    for part in name.split('.') {
        if part.is_empty() {
            bail!(Code::Location(15998), "FieldPath field names may not be empty strings.");
        }
        if part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db") {
            bail!(
                Code::Location(16410),
                "FieldPath field names may not start with '$'. Consider using $getField or \
                 $setField."
            );
        }
    }
    Ok(())
}

fn is_descending(name: &str, value: Value<'_>) -> Result<bool> {
    if !value.is_number() {
        bail!(Code::Location(15974), "Illegal key in $sort specification: {name}: {value}");
    }
    match number::truncate_to_i64(value) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => bail!(
            Code::Location(15975),
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
        ),
    }
}

/// Parses `{$meta: kind}`.
///
/// # Errors
/// 17312 and 9 for the wrong form, 31138 for kinds that cannot be sorted by, 31218 and 31219 for those of a search
/// service.
fn parse_meta(spec: Doc<'_>) -> Result<MetaKind> {
    let Some(element) = spec.first().filter(|element| element.name() == "$meta") else {
        bail!(Code::Location(17312), "$meta is the only expression supported by $sort right now");
    };
    if spec.count() > 1 {
        bail!(Code::FAILED_TO_PARSE, "Cannot have additional keys in a $meta sort specification");
    }
    match element.value() {
        Value::String("textScore") => Ok(MetaKind::TextScore),
        Value::String("randVal") => Ok(MetaKind::RandVal),
        Value::String("geoNearDistance") => Ok(MetaKind::GeoDistance),
        Value::String(name @ ("searchScore" | "searchHighlights")) => bail!(
            Code::Location(if name == "searchScore" { 31218 } else { 31219 }),
            "$meta sort by '{name}' metadata is not supported"
        ),
        Value::String(name) => {
            bail!(Code::Location(31138), "Illegal $meta sort: $meta: \"{name}\"")
        }
        value => bail!(Code::Location(31138), "Illegal $meta sort: $meta: {value}"),
    }
}
