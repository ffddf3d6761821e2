//! Sources that reshape documents: projections, documents built from index keys, `$recordId`.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Array, ArrayBuf, Doc, DocWriter, Value};
use nagi_error::Result;
use nagi_lang::{expr::Metadata, filter::Filter};
use nagi_store::{Index, RecordKey, keystring};

use super::{Cx, Source, index_scan::became_multikey, renew};
use crate::{access::MetaSource, projection::Projection};

/// Applies the projection of a `find`.
pub(crate) struct Project {
    input: Box<dyn Source>,
    projection: Arc<Projection>,
    filter: Arc<Filter>,
    meta: MetaSource,
    out: Vec<u8>,
    arena: Bump,
}

impl Project {
    pub(crate) fn new(
        input: Box<dyn Source>,
        projection: Arc<Projection>,
        filter: Arc<Filter>,
        meta: MetaSource,
    ) -> Project {
        Project { input, projection, filter, meta, out: Vec::new(), arena: Bump::new() }
    }
}

/// The `$meta` values of the current document of `input`.
fn metadata<'a>(
    source: &MetaSource,
    input: &'a dyn Source,
    sorted: bool,
    arena: &'a Bump,
) -> Result<Metadata<'a>> {
    let mut meta = Metadata::read(input.meta());
    meta.record_id = input.record_id().map(RecordKey::value);
    if let (Some(sort), true) = (&source.sort, sorted) {
        let mut key = Vec::new();
        sort.key_with(input.doc(), &meta, &mut key)?;
        let values = ArrayBuf::build(|out| {
            Doc::trusted(&key).iter().for_each(|element| out.push(element.value()));
        });
        meta.sort_key = Some(Array::trusted(arena.alloc_slice_copy(values.as_array().as_bytes())));
    }
    if let (Some(index), Some((key, type_bits))) = (&source.index, input.key()) {
        let mut bytes = Vec::new();
        let mut out = DocWriter::new(&mut bytes);
        put_key(index, key, type_bits, &mut out)?;
        out.finish();
        meta.index_key = Some(Doc::trusted(arena.alloc_slice_copy(&bytes)));
    }
    Ok(meta)
}

impl Source for Project {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        self.out.clear();
        let doc = self.input.doc();
        let info = match self.projection.needs_match() {
            true => self.filter.matches_with_position(doc, &cx.matching(&self.arena))?,
            false => None,
        };
        let mut eval = cx.eval(doc, &self.arena);
        if self.projection.needs_meta() {
            let sorted = self.projection.needs_sort_key();
            let meta = metadata(&self.meta, &*self.input, sorted, &self.arena)?;
            eval.meta = Some(self.arena.alloc(meta));
        }
        let mut out = DocWriter::new(&mut self.out);
        self.projection.apply(&eval, info, &mut out)?;
        out.finish();
        renew(&mut self.arena);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    over_input!();
}

/// Yields the index keys that a sort below kept; empty documents if no index was read.
pub(crate) struct KeptKey {
    input: Box<dyn Source>,
}

impl KeptKey {
    pub(crate) fn new(input: Box<dyn Source>) -> KeptKey {
        KeptKey { input }
    }
}

impl Source for KeptKey {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.input.advance(cx)
    }

    fn doc(&self) -> Doc<'_> {
        Metadata::read(self.input.meta()).index_key.unwrap_or(Doc::EMPTY)
    }

    over_input!();
}

/// Builds documents from index keys: `{a: .., b: {c: ..}}`, or flat with the key pattern's names.
pub(crate) struct FromKey {
    input: Box<dyn Source>,
    index: Arc<Index>,
    flat: bool,
    /// The index has one field, which is not nested: then the flat document is the nested one.
    single: bool,
    key: Vec<u8>,
    out: Vec<u8>,
}

impl FromKey {
    pub(crate) fn new(input: Box<dyn Source>, index: Arc<Index>, flat: bool) -> FromKey {
        let facts = index.spec.kind.facts();
        let single = matches!(&*index.spec.key, [part] if !part.path.contains('.'));
        let single = single && facts.by_path;
        FromKey { input, index, flat, single, key: Vec::new(), out: Vec::new() }
    }
}

/// The paths of an index's key, each with true if it is descending.
fn parts(index: &Index) -> impl Iterator<Item = (&str, bool)> {
    index.spec.key.iter().map(|part| (&*part.path, part.descending))
}

/// Writes an index key as clients see it: all of its fields, null if the document has none.
pub(crate) fn put_key(
    index: &Index,
    key: &[u8],
    type_bits: &[u8],
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let mut bytes = Vec::new();
    let mut fields = DocWriter::new(&mut bytes);
    keystring::decode(key, type_bits, parts(index), &mut fields)?;
    fields.finish();
    let fields = Doc::trusted(&bytes);
    if index.spec.kind.facts().by_path || fields.count() == index.spec.key.len() {
        fields.iter().for_each(|field| out.put(field.name(), field.value()));
        return Ok(());
    }
    for part in &index.spec.key {
        match fields.get(&part.path) {
            Value::Missing => out.put(&part.path, Value::Null),
            value => out.put(&part.path, value),
        }
    }
    Ok(())
}

/// Writes the fields of a flat document whose names are dotted paths as nested documents.
fn nest(fields: &[(&str, Value<'_>)], out: &mut DocWriter<'_>) {
    let mut at = 0;
    while let Some((path, value)) = fields.get(at) {
        let Some((head, _)) = path.split_once('.') else {
            out.put(path, *value);
            at += 1;
            continue;
        };
        let inner: Vec<(&str, Value<'_>)> = fields[at..]
            .iter()
            .map_while(|(path, value)| {
                let (first, rest) = path.split_once('.')?;
                (first == head).then_some((rest, *value))
            })
            .collect();
        out.doc(head, |out| nest(&inner, out));
        at += inner.len();
    }
}

impl Source for FromKey {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        self.key.clear();
        let mut out = DocWriter::new(&mut self.key);
        match self.input.key() {
            Some((key, type_bits)) if self.flat => put_key(&self.index, key, type_bits, &mut out)?,
            Some((key, type_bits)) => {
                keystring::decode(key, type_bits, parts(&self.index), &mut out)?;
            }
            None => {}
        }
        out.finish();
        if !self.flat && !self.single {
            self.out.clear();
            let flat = Doc::trusted(&self.key);
            let mut fields: Vec<(&str, Value<'_>)> =
                flat.iter().map(|e| (e.name(), e.value())).collect();
            fields.sort_by_key(|(path, _)| !path.starts_with("_id"));
            let mut out = DocWriter::new(&mut self.out);
            nest(&fields, &mut out);
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(if self.flat || self.single { &self.key } else { &self.out })
    }

    fn doubt_keys(&mut self, noted: u64, _: bool) -> Result<bool> {
        // A flat document shows a key, whatever the values are; the others stand for documents.
        let changed = self.input.doubt_keys(noted, !self.flat)?;
        if changed && !self.flat {
            return Err(became_multikey(&self.index));
        }
        Ok(changed)
    }

    over_input!();
}

/// Adds `$recordId` at the end.
pub(crate) struct RecordIds {
    input: Box<dyn Source>,
    out: Vec<u8>,
}

impl RecordIds {
    pub(crate) fn new(input: Box<dyn Source>) -> RecordIds {
        RecordIds { input, out: Vec::new() }
    }
}

impl Source for RecordIds {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        self.out.clear();
        let id = self.input.record_id();
        let mut out = DocWriter::new(&mut self.out);
        out.extend(self.input.doc());
        if let Some(id) = id {
            out.put("$recordId", id.value());
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    over_input!();
}
