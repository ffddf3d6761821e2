//! The row of a kind of index: all that other code needs to know of the kind.
//!
//! A kind is a file in `kinds/` and a row in the list there. Specifications, key generation, builds and plans do not
//! compare kinds: they read the facts of the row or call its functions. What a kind parsed from its options is kept
//! in the specification as [`Details`], which only the modules of that kind look into.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result};

use super::{
    Index, IndexSpec, KeyPart,
    keygen::{self, KeySink},
    kinds::KINDS,
    spec::Shape,
};

/// A kind of index: the method by which the keys of a document are generated.
#[derive(Clone, Copy)]
pub struct IndexKind(&'static KindFacts);

/// How a key pattern tells the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NamedBy {
    /// The pattern has directions only, and no other kind claims it.
    Directions,
    /// A field has the kind's name as its value: `{a: "hashed"}`.
    Value,
    /// The kind claims the pattern because of its paths; its name as a value is refused.
    Path,
}

/// What keys contain for a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The field's values.
    Values,
    /// Hashes of the values.
    Hashes,
    /// Cells of geometries.
    Cells,
    /// Terms, which only the kind's own plans read; the next field has their scores.
    Terms,
}

/// What a kind parsed from the options and the key pattern of an index.
pub(crate) trait Details: Any + Debug + Send + Sync {
    /// True if both belong to the same signature: only one such index may exist. Both are of the same kind.
    fn same_signature(&self, _other: &dyn Details) -> bool {
        true
    }

    /// True if the options besides name and signature are equal. Both are of the same kind.
    fn same_options(&self, _other: &dyn Details) -> bool {
        true
    }

    /// Returns true if `differs` holds for a path on which keys depend, besides those of the key pattern.
    fn depends_on(&self, _differs: &dyn Fn(&str) -> bool) -> bool {
        false
    }

    /// For keys that contain a path before its value: their position.
    fn path_field(&self) -> Option<PathField<'_>> {
        None
    }
}

impl dyn Details {
    /// The details, if they have this type.
    pub(super) fn get<T: Details>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The path that keys contain, and which precedes its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathField<'s> {
    /// Position in the key pattern.
    pub at: usize,
    /// For [`Index::at_path`]: the path, which is the field `at`; its value is the next field. None if the field
    /// `at` has both.
    pub path: Option<&'s str>,
}

/// A specification that a kind has completed before its key pattern is parsed.
pub(crate) struct Completed {
    /// The stored key pattern.
    pub(crate) key: DocBuf,
    /// All options, completed.
    pub(crate) doc: DocBuf,
    pub(crate) details: Arc<dyn Details>,
}

/// The parsed details of a kind; none if it has no options.
pub(crate) type Parsed = Option<Arc<dyn Details>>;

/// The field for the path in the key patterns of plans.
pub(super) const PATH_FIELD: &str = "$_path";

/// All that other code needs to know of a kind.
#[derive(Debug)]
pub struct KindFacts {
    pub name: &'static str,
    pub(crate) named_by: NamedBy,
    /// What keys contain for a field that has the kind's name as its value.
    pub(crate) content: Content,
    /// The options that exist for this kind, and the types of their values.
    pub(crate) options: &'static [(&'static str, Shape)],
    /// An option that listings always show, with its default.
    pub(crate) listed: Option<(&'static str, i32)>,
    /// A path that only key patterns of this kind may have.
    pub(crate) reserved_path: Option<&'static str>,
    /// Completes a specification with its key pattern, if the pattern names the kind.
    pub(crate) complete: Option<fn(Doc<'_>, Doc<'_>) -> Result<Completed>>,
    /// Checks the parts of any key pattern that belong to this kind.
    pub(crate) check_pattern: fn(&[KeyPart], Doc<'_>) -> Result<()>,
    /// For [`NamedBy::Path`]: returns true if the pattern of a specification is of this kind.
    pub(crate) claims: fn(Doc<'_>, &[KeyPart]) -> Result<bool>,
    /// Checks a specification with its key pattern, and parses the options of the kind.
    pub(crate) parse: fn(Doc<'_>, &[KeyPart]) -> Result<Parsed>,
    /// Generates the keys of a document.
    pub(crate) keys: fn(&IndexSpec, Doc<'_>, &mut KeySink) -> Result<()>,
    /// The index of one path of an index whose keys contain paths.
    pub(crate) at_path: fn(&Index, &str) -> Option<Arc<Index>>,
    /// Number of words for the paths with arrays; none means one for each field.
    pub(crate) multikey_words: Option<usize>,
    /// The error of a unique index; none if an index may be unique.
    pub(crate) not_unique: Option<(Code, &'static str)>,
    /// Every document has an entry, and all entries have values of documents or their hashes: a scan of the whole
    /// index finds every document, and points on all fields find exactly the documents with these values.
    pub whole: bool,
    /// Keys have the values of all fields, in the order of values.
    pub by_value: bool,
    /// The reason why plans of ordinary filters cannot use it, for messages; none if they can.
    pub filters_refused: Option<&'static str>,
    /// Keys are generated for all paths of a document and contain the path.
    pub by_path: bool,
    /// Supports a collation.
    pub collates: bool,
    /// A collection may have at most one.
    pub single: bool,
    /// Part of version 1 of the stable API.
    pub in_api: bool,
}

impl KindFacts {
    /// The properties that most kinds have.
    pub(super) const ROW: KindFacts = KindFacts {
        name: "",
        named_by: NamedBy::Directions,
        content: Content::Values,
        options: &[],
        listed: None,
        reserved_path: None,
        complete: None,
        check_pattern: |_, _| Ok(()),
        claims: |_, _| Ok(false),
        parse: |_, _| Ok(None),
        keys: keygen::of_values,
        at_path: |_, _| None,
        multikey_words: None,
        not_unique: None,
        whole: false,
        by_value: false,
        filters_refused: None,
        by_path: false,
        collates: true,
        single: false,
        in_api: true,
    };

    /// Plans of ordinary filters may use it.
    pub fn answers_filters(&self) -> bool {
        self.filters_refused.is_none()
    }
}

impl PartialEq for IndexKind {
    fn eq(&self, other: &IndexKind) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for IndexKind {}

impl Debug for IndexKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

impl IndexKind {
    /// The row of the kind.
    pub fn facts(self) -> &'static KindFacts {
        self.0
    }

    /// All kinds.
    pub fn all() -> impl Iterator<Item = IndexKind> {
        KINDS.iter().map(|row| IndexKind(row))
    }

    /// The kind of key patterns with directions only.
    pub(super) fn ordinary() -> IndexKind {
        IndexKind(KINDS[0])
    }

    /// The kind with this name, if values of key patterns may mention it.
    pub(super) fn of_value(value: &str) -> Option<IndexKind> {
        let named = |kind: &IndexKind| kind.0.named_by != NamedBy::Directions;
        IndexKind::all().find(|kind| named(kind) && kind.0.name == value)
    }
}

/// Options of all kinds.
pub(super) fn options() -> impl Iterator<Item = &'static (&'static str, Shape)> {
    KINDS.iter().flat_map(|row| row.options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinary_kind_is_first_and_the_others_are_sorted() {
        assert!(
            KINDS[0].named_by == NamedBy::Directions && KINDS[1..].is_sorted_by_key(|k| k.name)
        );
        assert!(KINDS[1..].iter().all(|row| row.named_by != NamedBy::Directions));
    }
}
