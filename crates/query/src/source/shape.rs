//! Sources that reshape documents: projections, keys kept by sorts, `$recordId`.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Array, ArrayBuf, Doc, DocWriter};
use nagi_error::Result;
use nagi_lang::{expr::Metadata, filter::Filter};
use nagi_store::RecordKey;

use super::{Cx, Source, put_key, renew};
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

    fn over(&self, input: Box<dyn Source>) -> Project {
        let (projection, filter) = (Arc::clone(&self.projection), Arc::clone(&self.filter));
        Project::new(input, projection, filter, self.meta.clone())
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

    forks_with_input!();

    splits_with_input!();

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
