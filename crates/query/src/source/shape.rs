//! Sources that shape documents: projections, documents made of index keys, `$recordId`.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::Result;
use nagi_lang::filter::Filter;
use nagi_store::{Index, RecordId, keystring};

use super::{Cx, Source};
use crate::projection::Projection;

/// Applies the projection of a `find`.
pub(crate) struct Project {
    input: Box<dyn Source>,
    projection: Arc<Projection>,
    filter: Arc<Filter>,
    out: Vec<u8>,
    arena: Bump,
}

impl Project {
    pub(crate) fn new(
        input: Box<dyn Source>,
        projection: Arc<Projection>,
        filter: Arc<Filter>,
    ) -> Project {
        Project { input, projection, filter, out: Vec::new(), arena: Bump::new() }
    }
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
        let mut out = DocWriter::new(&mut self.out);
        self.projection.apply(&cx.eval(doc, &self.arena), info, &mut out)?;
        out.finish();
        self.arena.reset();
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    over_input!();
}

/// Empty documents, one for each of the input.
pub(crate) struct NoKey {
    input: Box<dyn Source>,
}

impl NoKey {
    pub(crate) fn new(input: Box<dyn Source>) -> NoKey {
        NoKey { input }
    }
}

impl Source for NoKey {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.input.advance(cx)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    over_input!();
}

/// Makes documents of index keys: `{a: .., b: {c: ..}}`, or flat with the key pattern's names.
pub(crate) struct FromKey {
    input: Box<dyn Source>,
    index: Arc<Index>,
    flat: bool,
    key: Vec<u8>,
    out: Vec<u8>,
}

impl FromKey {
    pub(crate) fn new(input: Box<dyn Source>, index: Arc<Index>, flat: bool) -> FromKey {
        FromKey { input, index, flat, key: Vec::new(), out: Vec::new() }
    }
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
        if let Some((key, type_bits)) = self.input.key() {
            let parts = self.index.spec.key.iter().map(|part| (&*part.path, part.descending));
            keystring::decode(key, type_bits, parts, &mut out)?;
        }
        out.finish();
        if !self.flat {
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
        Doc::trusted(if self.flat { &self.key } else { &self.out })
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
            out.put("$recordId", id.0);
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    over_input!();
}
