//! The tags of a query's payloads.
//!
//! For each token set of a payload and each contention factor the state collection ESC says how many tags are in use.
//! A range has many sets. If the tags of a query would need more memory than allowed, the predicate tests the values
//! of all documents instead.

use std::sync::Arc;

use nagi_bson::{Array, Doc, Value, ValueBuf};
use nagi_error::Result;
use nagi_lang::encrypted::{
    EscTokens, FIND_TEXT, FindPayload, FindSet, SAFE_CONTENT, SUBTYPE, Token, derive,
    is_find_payload,
};
use nagi_store::{Collection, Namespace, Reader, Store};

use super::{information::Encryption, state::Esc};
use crate::source::check_memory;

/// The bytes of a tag in an array: its type, its name, its length and subtype, and the tag.
const TAG_BYTES: usize = 45;
/// The bytes of a parsed key of zeros, and of its forms in a filter.
const KEY_BYTES: usize = 1 << 10;

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
    /// The sum of the positions in use that were found. Positions only grow, so an equal sum means equal positions.
    positions: u64,
    /// Tags are only counted.
    counts_only: bool,
    /// Tags of positions that are not in use yet: some may be when the documents are read.
    margin: u64,
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

/// True for a query or a part of one with conditions on tags, or with payloads or tokens.
pub(crate) fn has_secrets(part: Doc<'_>) -> bool {
    fn within(value: Value<'_>) -> bool {
        match value {
            Value::Doc(doc) => has_secrets(doc),
            Value::Array(array) => array.iter().any(within),
            Value::Binary(data) => data.subtype == SUBTYPE,
            _ => false,
        }
    }
    part.iter().any(|element| element.name() == SAFE_CONTENT || within(element.value()))
}

impl<'r> Rewriter<'r> {
    pub(super) fn new(
        encryption: &'r Encryption,
        reader: Reader<'r>,
        namespace: &'r Namespace,
        lookup: &'r dyn Fn(&Namespace) -> Option<Arc<Collection>>,
        check: &'r dyn Fn() -> Result<()>,
    ) -> Result<Rewriter<'r>> {
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
            positions: 0,
            counts_only: false,
            margin: 0,
        };
        out.esc = out.esc_of(namespace)?;
        Ok(out)
    }

    /// None for a collection without encrypted fields, and for one without documents.
    fn esc_of(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        let Some(target) = self.encryption.target(namespace) else { return Ok(None) };
        match (self.lookup)(&target.esc) {
            None if target.has_documents(self.reader)? => Err(target.without_esc()),
            esc => Ok(esc),
        }
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
        let inner = match Namespace::new(self.database, name) {
            Ok(ns) => self.esc_of(&ns)?,
            // The stage refuses the name.
            Err(_) => None,
        };
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
            Some(tags) => Ok(Found::Tags(tags)),
            None => {
                // The filter with the keys, and the expanded keys.
                check_memory(payload.sets.len() * KEY_BYTES)?;
                Ok(Found::Zeros(payload.sets.iter().map(FindSet::zeros).collect()))
            }
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
        let mut left = self.tags_left as u64;
        let mut tags = Vec::new();
        let mut esc = self.esc.as_ref().map(|esc| Esc::new(self.reader, esc));
        for set in &payload.sets {
            for factor in 0..factors {
                let tokens = EscTokens::of(&set.esc(factor));
                let last = match &mut esc {
                    Some(esc) => esc.positions(&tokens, self.check)?.last,
                    None => 0,
                };
                self.positions = self.positions.wrapping_add(last);
                let last = last.saturating_add(self.margin);
                match left.checked_sub(last) {
                    Some(less) => left = less,
                    None => return Ok(None),
                }
                if self.counts_only {
                    continue;
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
        self.tags_left = left as usize;
        Ok(Some(tags))
    }
}

/// A filter or a pipeline with payloads.
#[derive(Debug, Clone, Copy)]
pub enum Searched<'a> {
    Filter(Doc<'a>),
    Pipeline(Array<'a>),
}

impl<'a> Searched<'a> {
    fn value(self) -> Value<'a> {
        match self {
            Searched::Filter(filter) => Value::Doc(filter),
            Searched::Pipeline(pipeline) => Value::Array(pipeline),
        }
    }
}

/// The same without payloads.
#[derive(Debug)]
pub struct Rewritten {
    value: ValueBuf,
    positions: u64,
    margin: u64,
}

impl Rewritten {
    /// The rewritten filter.
    pub fn filter(&self) -> Doc<'_> {
        self.value.value().as_doc().unwrap_or(Doc::EMPTY)
    }

    /// The rewritten pipeline.
    pub fn pipeline(&self) -> Array<'_> {
        self.value.value().as_array().unwrap_or(Array::EMPTY)
    }
}

impl Encryption {
    /// Replaces payloads by conditions on tags; none if there are no payloads. `store` may be bound to a transaction,
    /// whose snapshot is read then. The conditions have the tags of the next `margin` positions too.
    ///
    /// # Errors
    /// Those of malformed payloads; those of `check`, which is polled.
    pub fn rewrite(
        &self,
        store: &Store,
        namespace: &Namespace,
        searched: Searched<'_>,
        margin: u64,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Rewritten>> {
        if !has_query(searched.value()) {
            return Ok(None);
        }
        self.run(store, namespace, searched, (check, false, margin)).map(Some)
    }

    /// How often searched values were stored since it was rewritten. If it is no more than the margin, documents read
    /// in between are exactly those that have the values: none of them has another tag.
    ///
    /// # Errors
    /// As [`Encryption::rewrite`].
    pub fn stored_since(
        &self,
        store: &Store,
        namespace: &Namespace,
        (searched, rewritten): (Searched<'_>, &Rewritten),
        check: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let now = self.run(store, namespace, searched, (check, true, rewritten.margin))?;
        Ok(now.positions.wrapping_sub(rewritten.positions))
    }

    fn run(
        &self,
        store: &Store,
        namespace: &Namespace,
        searched: Searched<'_>,
        (check, counts_only, margin): (&dyn Fn() -> Result<()>, bool, u64),
    ) -> Result<Rewritten> {
        let snapshot = store.snapshot()?;
        let lookup = |ns: &Namespace| store.collection(ns);
        let mut rewriter = Rewriter::new(self, snapshot.reader(), namespace, &lookup, check)?;
        (rewriter.counts_only, rewriter.margin) = (counts_only, margin);
        let value = match searched {
            Searched::Filter(filter) => ValueBuf::new(rewriter.filter(filter)?.as_doc().into()),
            Searched::Pipeline(stages) => {
                ValueBuf::new(rewriter.pipeline(stages)?.as_array().into())
            }
        };
        Ok(Rewritten { value, positions: rewriter.positions, margin })
    }
}
