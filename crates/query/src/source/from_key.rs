//! Builds documents from index keys, for covered plans and `returnKey`.

use std::sync::Arc;

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::Result;
use nagi_store::{Index, RecordKey, keystring};

use super::{Cx, Source, index_scan::became_multikey, key_layout::Layout};

/// Builds documents from index keys: `{a: .., b: {c: ..}}`, or flat with the key pattern's names.
pub(crate) struct FromKey {
    input: Box<dyn Source>,
    index: Arc<Index>,
    /// How the fields become a document; none for flat ones.
    layout: Option<Arc<Layout>>,
    key: Vec<u8>,
    out: Vec<u8>,
}

impl FromKey {
    /// `fields`: the paths that the documents need to have, nested; none: all fields of the key in a flat document.
    pub(crate) fn new(
        input: Box<dyn Source>,
        index: Arc<Index>,
        fields: Option<&[String]>,
    ) -> FromKey {
        let layout = fields.map(|fields| {
            let paths = index.spec.key.iter().map(|part| &*part.path);
            Arc::new(Layout::new(paths, |path| fields.iter().any(|field| field == path)))
        });
        FromKey { input, index, layout, key: Vec::new(), out: Vec::new() }
    }

    /// The same over another input.
    fn over(&self, input: Box<dyn Source>) -> FromKey {
        let (index, layout) = (Arc::clone(&self.index), self.layout.clone());
        FromKey { input, index, layout, key: Vec::new(), out: Vec::new() }
    }
}

/// Writes an index key as clients see it: all of its fields, null if the document has none.
pub(crate) fn put_key(
    index: &Index,
    key: &[u8],
    type_bits: &[u8],
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let parts = index.spec.key.iter().map(|part| (&*part.path, part.descending));
    let mut bytes = Vec::new();
    let mut fields = DocWriter::new(&mut bytes);
    keystring::decode(key, type_bits, parts, &mut fields)?;
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

impl Source for FromKey {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        self.key.clear();
        let mut out = DocWriter::new(&mut self.key);
        if let Some((key, type_bits)) = self.input.key() {
            match &self.layout {
                None => put_key(&self.index, key, type_bits, &mut out)?,
                Some(layout) => {
                    let parts = &self.index.spec.key;
                    let fields = layout.names().zip(parts).map(|(name, p)| (name, p.descending));
                    keystring::decode_some(key, type_bits, fields, &mut out)?;
                }
            }
        }
        out.finish();
        if let Some(layout) = self.layout.as_ref().filter(|layout| !layout.is_plain()) {
            self.out.clear();
            layout.write(Doc::trusted(&self.key), &mut DocWriter::new(&mut self.out));
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        let plain = self.layout.as_ref().is_none_or(|layout| layout.is_plain());
        Doc::trusted(if plain { &self.key } else { &self.out })
    }

    fn doubt_keys(&mut self, noted: u64, _: bool) -> Result<bool> {
        // A flat document shows a key, whatever the values are; the others stand for documents.
        let nested = self.layout.is_some();
        let changed = self.input.doubt_keys(noted, nested)?;
        if changed && nested {
            return Err(became_multikey(&self.index));
        }
        Ok(changed)
    }

    splits_with_input!();

    over_input!();
}
