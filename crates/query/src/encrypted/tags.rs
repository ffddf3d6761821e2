//! The tags of a query's payloads.
//!
//! For each token set of a payload and each contention factor the state collection ESC says how many tags are in use.
//! A range has many sets. If the tags of a query would need more memory than allowed, the predicate tests the values
//! of all documents instead.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value};
use nagi_error::Result;
use nagi_lang::encrypted::{
    EscTokens, FIND_TEXT, FindPayload, FindSet, SUBTYPE, Token, derive, is_find_payload,
};
use nagi_store::{Collection, Namespace, Reader};

use super::{
    information::{Encryption, Target},
    state::Esc,
};
use crate::source::check_memory;

/// The bytes of a tag in an array: its type, its name, its length and subtype, and the tag.
const TAG_BYTES: usize = 45;

/// What a payload stands for.
pub(super) enum Found {
    /// The tags of all values that match.
    Tags(Vec<Token>),
    /// Too many tags: the keys of the zeros in the blocks of values that match.
    Zeros(Vec<Token>),
    /// The second bound of a range, whose first bound has the tokens of both.
    Stub,
}

/// Rewrites the parts of one command.
pub(super) struct Rewriter<'r> {
    encryption: &'r Encryption,
    reader: Reader<'r>,
    /// The state collection ESC of the collection whose documents are filtered, if it exists.
    esc: Option<Arc<Collection>>,
    lookup: &'r dyn Fn(&Namespace) -> Option<Arc<Collection>>,
    pub(super) database: &'r str,
    check: &'r dyn Fn() -> Result<()>,
    /// How many more tags the query may have.
    tags_left: usize,
    /// How many more values may be looked up in the state collection, whether they have tags or not.
    lookups_left: u64,
}

/// True for BinData that is the payload of a query of any kind.
pub(super) fn is_query(value: Value<'_>) -> bool {
    is_find_payload(value)
        || matches!(value, Value::Binary(data)
            if data.subtype == SUBTYPE && data.bytes.first() == Some(&FIND_TEXT))
}

/// True if a value contains the payload of a query.
pub(super) fn has_query(value: Value<'_>) -> bool {
    match value {
        Value::Doc(doc) => doc.iter().any(|element| has_query(element.value())),
        Value::Array(array) => array.iter().any(has_query),
        value => is_query(value),
    }
}

impl<'r> Rewriter<'r> {
    pub(super) fn new(
        encryption: &'r Encryption,
        reader: Reader<'r>,
        namespace: &'r Namespace,
        lookup: &'r dyn Fn(&Namespace) -> Option<Arc<Collection>>,
        check: &'r dyn Fn() -> Result<()>,
    ) -> Rewriter<'r> {
        let tags_left = encryption.options.tags_bytes_max / TAG_BYTES;
        let database = namespace.database();
        let lookups_left = tags_left as u64;
        let mut out = Rewriter {
            encryption,
            reader,
            esc: None,
            lookup,
            database,
            check,
            tags_left,
            lookups_left,
        };
        out.esc = out.esc_of(namespace);
        out
    }

    fn esc_of(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.encryption.target(namespace).and_then(|target: &Target| (self.lookup)(&target.esc))
    }

    /// Called before a part of the request is copied: it may be large, and within many others.
    pub(super) fn enter(&self, part: Value<'_>) -> Result<()> {
        let len = match part {
            Value::Doc(doc) => doc.len(),
            Value::Array(array) => array.as_bytes().len(),
            _ => 0,
        };
        check_memory(2 * len)?;
        (self.check)()
    }

    /// Runs `f` for the documents of another collection of the same database.
    pub(super) fn within<T>(
        &mut self,
        collection: Option<&str>,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(name) = collection else { return f(self) };
        let inner = Namespace::new(self.database, name).ok().and_then(|ns| self.esc_of(&ns));
        let outer = std::mem::replace(&mut self.esc, inner);
        let done = f(self);
        self.esc = outer;
        done
    }

    /// What a payload stands for.
    ///
    /// # Errors
    /// Those of malformed payloads and of malformed documents in the state collection.
    pub(super) fn resolve(&mut self, bytes: &[u8]) -> Result<Found> {
        let payload = FindPayload::read(bytes)?;
        if payload.is_stub {
            return Ok(Found::Stub);
        }
        match self.tags(&payload)? {
            Some(tags) => {
                self.tags_left -= tags.len();
                Ok(Found::Tags(tags))
            }
            None => Ok(Found::Zeros(payload.sets.iter().map(FindSet::zeros).collect())),
        }
    }

    /// The keys of the zeros for a payload; none for a stub.
    pub(super) fn zeros(&self, bytes: &[u8]) -> Result<Option<Vec<Token>>> {
        let payload = FindPayload::read(bytes)?;
        let keys = || payload.sets.iter().map(FindSet::zeros).collect();
        Ok((!payload.is_stub).then(keys))
    }

    /// None if there are too many.
    fn tags(&mut self, payload: &FindPayload<'_>) -> Result<Option<Vec<Token>>> {
        let factors = payload.contention_max.saturating_add(1);
        let lookups = factors.saturating_mul(payload.sets.len() as u64);
        if self.encryption.options.always_test_values || lookups > self.lookups_left {
            return Ok(None);
        }
        self.lookups_left -= lookups;
        let mut tags = Vec::new();
        let Some(esc) = &self.esc else { return Ok(Some(tags)) };
        let mut esc = Esc::new(self.reader, esc);
        for set in &payload.sets {
            for factor in 0..factors {
                let tokens = EscTokens::of(&set.esc(factor));
                let last = esc.positions(&tokens, self.check)?.last;
                let left = (self.tags_left - tags.len()) as u64;
                if last > left {
                    return Ok(None);
                }
                // The tags, and the filter with them.
                check_memory(last as usize * 4 * TAG_BYTES)?;
                let key = set.tags(factor);
                for position in 1..=last {
                    if position % 1024 == 0 {
                        (self.check)()?;
                    }
                    tags.push(derive(&key, position));
                }
            }
        }
        Ok(Some(tags))
    }
}

impl Encryption {
    /// The filter with conditions on tags instead of payloads; none if it contains no payload. `store` may be bound to
    /// a transaction, whose snapshot is read then.
    ///
    /// # Errors
    /// Those of malformed payloads; those of `check`, which is polled.
    pub fn rewrite_filter(
        &self,
        store: &nagi_store::Store,
        namespace: &Namespace,
        filter: nagi_bson::Doc<'_>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Option<DocBuf>> {
        if !has_query(Value::Doc(filter)) {
            return Ok(None);
        }
        let snapshot = store.snapshot()?;
        let lookup = |ns: &Namespace| store.collection(ns);
        let mut rewriter = Rewriter::new(self, snapshot.reader(), namespace, &lookup, check);
        rewriter.filter(filter).map(Some)
    }

    /// The same for a pipeline.
    ///
    /// # Errors
    /// As [`Encryption::rewrite_filter`].
    pub fn rewrite_pipeline(
        &self,
        store: &nagi_store::Store,
        namespace: &Namespace,
        pipeline: nagi_bson::Array<'_>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Option<nagi_bson::ArrayBuf>> {
        if !has_query(Value::Array(pipeline)) {
            return Ok(None);
        }
        let snapshot = store.snapshot()?;
        let lookup = |ns: &Namespace| store.collection(ns);
        let mut rewriter = Rewriter::new(self, snapshot.reader(), namespace, &lookup, check);
        rewriter.pipeline(pipeline).map(Some)
    }
}
