//! An index specification: key pattern and options, checked in MongoDB's words.

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;

use crate::Namespace;

/// How the keys of a document are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum IndexKind {
    /// Values as they are, ascending or descending.
    Btree,
    /// One field by its hash.
    Hashed,
}

/// One field of a key pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPart {
    /// Dotted path.
    pub path: Box<str>,
    pub descending: bool,
    pub hashed: bool,
}

/// A checked specification.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    pub name: Box<str>,
    pub kind: IndexKind,
    pub key: Box<[KeyPart]>,
    /// The key pattern as the user wrote it.
    pub key_pattern: DocBuf,
    pub unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    pub partial: Option<DocBuf>,
    pub expire_after_seconds: Option<i64>,
    /// The row of `listIndexes`: `{v, key, name, options...}`.
    pub doc: DocBuf,
}

impl IndexSpec {
    /// Checks one element of `createIndexes.indexes`. Codes 9, 14, 67, 73, 197.
    pub fn parse(spec: Doc<'_>, namespace: &Namespace) -> Result<IndexSpec> {
        let _ = (spec, namespace);
        unimplemented!("next commit")
    }

    /// Whether this is the index on `_id`.
    pub fn is_id(&self) -> bool {
        self.key.len() == 1 && &*self.key[0].path == "_id" && !self.key[0].hashed
    }
}
