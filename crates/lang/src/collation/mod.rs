//! Collations: the order of strings by the rules of a language instead of by their bytes.
//!
//! ```text
//!   {locale: "fr", strength: 2} --parse--> Spec --interned--> &'static Collation
//!                                                               compare(a, b)    while matching
//!                                                               key(a) as text   in keys and hashes
//! ```
//!
//! Everywhere else a collation is an `Option<&'static Collation>`; none is the simple one, which
//! compares bytes and never comes here. One word long and `Copy`, it travels with parsed filters,
//! expressions, sorts and index specifications.
//!
//! A *key* is a text whose bytes order as the collation orders the originals. Wherever values are
//! hashed, or encoded to be compared as bytes, strings are replaced by their keys first
//! ([`Collation::keyed`]), in embedded documents and arrays too; what follows need not know.
//!
//! Invariants
//! - One `Collation` for each different specification, for the life of the process: there are about
//!   170 locales and 960 ways to set the options, so at most some 60 MB if a client asks for all.
//! - `compare(a, b)` is the order of `key(a)` and `key(b)`, byte by byte.
//!
//! Does not know about: which operation has which collation (default of a collection, of a view).

mod engine;
mod locales;
mod order;
mod spec;

use std::{
    cmp::Ordering,
    collections::HashMap,
    fmt,
    sync::{LazyLock, RwLock},
};

use foldhash::fast::RandomState;
use icu_collator::CollatorBorrowed;
use nagi_bson::{Doc, DocBuf, DocWriter};
use nagi_error::{Error, Result};

pub use order::{equal, expr_values, has_text, hash_of, values};
pub use spec::{CaseFirst, Spec};

/// An order of strings. Two are the same exactly if they have the same address.
pub struct Collation {
    spec: Spec,
    /// The specification with every field, as it is listed.
    form: DocBuf,
    collator: CollatorBorrowed<'static>,
}

static KNOWN: LazyLock<RwLock<HashMap<Spec, &'static Collation, RandomState>>> =
    LazyLock::new(RwLock::default);

/// What an operation says of its collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asked {
    /// Nothing: that of the collection or view.
    #[default]
    Inherited,
    /// This one; none is the simple one.
    Given(Option<&'static Collation>),
}

impl Asked {
    /// Reads the `collation` of a command; absent and `{}` say nothing.
    ///
    /// # Errors
    /// As for [`Collation::parse`].
    pub fn parse(spec: Option<Doc<'_>>) -> Result<Asked> {
        match spec {
            None => Ok(Asked::Inherited),
            Some(spec) if spec.is_empty() => Ok(Asked::Inherited),
            Some(spec) => Ok(Asked::Given(Collation::parse(spec)?)),
        }
    }

    /// The collation of an operation on something with this default.
    pub fn or(self, default: Option<&'static Collation>) -> Option<&'static Collation> {
        match self {
            Asked::Inherited => default,
            Asked::Given(collation) => collation,
        }
    }
}

impl Collation {
    /// The collation of a specification; none for `{locale: "simple"}`.
    ///
    /// # Errors
    /// 40414 without `locale`, 40415 for an unknown field, 14 for a wrong type, 2 for an unknown
    /// locale or a value outside an enumeration, 9 for anything beside `simple`, 161 for another
    /// version.
    pub fn parse(spec: Doc<'_>) -> Result<Option<&'static Collation>> {
        Ok(match Spec::parse(spec)? {
            Some(spec) => Some(Collation::of(spec)?),
            None => None,
        })
    }

    fn of(spec: Spec) -> Result<&'static Collation> {
        let known = KNOWN.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = known.get(&spec) {
            return Ok(found);
        }
        drop(known);
        let mut known = KNOWN.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = known.get(&spec) {
            return Ok(found);
        }
        let collator = engine::collator(&spec)
            .map_err(|cause| Error::bug(format!("no collator for {}: {cause}", spec.locale)))?;
        let form = DocBuf::build(|out| spec.write(out));
        let made: &'static Collation = Box::leak(Box::new(Collation { spec, form, collator }));
        known.insert(spec, made);
        Ok(made)
    }

    /// The options, each with its value.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The specification with every default filled in, as listings show it and as it is stored.
    pub fn as_doc(&self) -> Doc<'_> {
        self.form.as_doc()
    }

    /// Order of two strings; what they begin with in common is passed over.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        self.collator.compare(a, b)
    }

    /// Appends the key of a string: text whose bytes order as this collation orders the strings.
    /// Bytes beyond ASCII take two, as in the first page of Unicode, which keeps their order.
    pub fn key(&self, text: &str, out: &mut String) {
        let mut bytes = Vec::with_capacity(text.len() * 2);
        let Ok(()) = self.collator.write_sort_key_to(text, &mut bytes);
        out.reserve(bytes.len());
        out.extend(bytes.into_iter().map(char::from));
    }
}

/// The bytes of the sort key that a key stands for, as hexadecimal digits: how index keys are shown.
pub fn key_hex(key: &str) -> String {
    key.chars().map(|c| format!("{:02x}", u32::from(c))).collect()
}

/// Writes `name` with the whole specification; the simple collation is not shown.
pub fn put(collation: Option<&Collation>, name: &str, out: &mut DocWriter<'_>) {
    if let Some(collation) = collation {
        out.put(name, collation.as_doc());
    }
}

impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        self.spec == other.spec
    }
}

impl Eq for Collation {}

impl fmt::Debug for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collation").field(&self.spec).finish()
    }
}
