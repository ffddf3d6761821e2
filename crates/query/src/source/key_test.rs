//! Tests conditions on index keys; see `plan/key_filter.rs`.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter};
use nagi_error::Result;
use nagi_lang::{expr::Vars, filter::MatchCx};
use nagi_store::keystring;

use crate::access::{IndexAccess, KeyFilter};

/// A filter on keys, with reusable memory.
pub(super) struct KeyTest {
    filter: Arc<KeyFilter>,
    /// The key as a document.
    doc: Vec<u8>,
    arena: Bump,
}

impl KeyTest {
    pub(super) fn of(access: &IndexAccess) -> Option<KeyTest> {
        let filter = Arc::clone(access.filter.as_ref()?);
        Some(KeyTest { filter, doc: Vec::new(), arena: Bump::new() })
    }

    /// Returns true if a key of the index satisfies the conditions.
    pub(super) fn passes(
        &mut self,
        access: &IndexAccess,
        (key, type_bits): (&[u8], &[u8]),
    ) -> Result<bool> {
        let names = self.filter.names.iter();
        let fields =
            names.zip(&access.index.spec.key).map(|(name, part)| (&**name, part.descending));
        self.doc.clear();
        let mut out = DocWriter::new(&mut self.doc);
        keystring::decode(key, type_bits, fields, &mut out)?;
        out.finish();
        // Conditions on fields use no variables and no time.
        let vars = Vars::EMPTY;
        let matched = self
            .filter
            .tested
            .matches(Doc::trusted(&self.doc), &MatchCx::new(&vars, &self.arena, 0));
        self.arena.reset();
        matched
    }
}
