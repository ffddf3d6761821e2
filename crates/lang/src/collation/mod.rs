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
//! - One `Collation` for each different specification, for the life of the process. There are about 170
//!   locales and 960 ways to set the options; requests get [`COLLATIONS_MAX`] of them, some 4 MB.
//! - `compare(a, b)` is the order of `key(a)` and `key(b)`, byte by byte.
//!
//! - A text of any length takes bounded memory, or has its request end: see [`long`].
//!
//! Does not know about: which operation has which collation (default of a collection, of a view).

mod engine;
mod locales;
mod long;
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
use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail};

pub use order::{equal, expr_values, has_text, hash_of, values};
pub use spec::{CaseFirst, Spec};

/// An order of strings. Two are the same exactly if they have the same address.
pub struct Collation {
    spec: Spec,
    /// The specification with every field, as it is listed.
    form: DocBuf,
    collator: CollatorBorrowed<'static>,
}

/// Different collations that requests may ask for in the life of a process, each kept for some 400
/// bytes. What is stored in catalogs comes on top.
pub const COLLATIONS_MAX: usize = 10_000;

/// The collations that were made.
#[derive(Default)]
struct Known(RwLock<HashMap<Spec, &'static Collation, RandomState>>);

static KNOWN: LazyLock<Known> = LazyLock::new(Known::default);

impl Known {
    /// The collation of a specification, made if it is new and there are fewer than `max`.
    fn get(&self, spec: Spec, max: usize) -> Result<&'static Collation> {
        let known = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = known.get(&spec) {
            return Ok(found);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = known.get(&spec) {
            return Ok(found);
        }
        if known.len() >= max {
            bail!(
                Code::EXCEEDED_MEMORY_LIMIT,
                "too many different collations have been used since the server was started: only the \
                 {max} known ones can be used until it is started again"
            );
        }
        let collator = engine::collator(&spec)
            .map_err(|cause| Error::bug(format!("no collator for {}: {cause}", spec.locale)))?;
        let form = DocBuf::build(|out| spec.write(out));
        let made: &'static Collation = Box::leak(Box::new(Collation { spec, form, collator }));
        known.insert(spec, made);
        Ok(made)
    }
}

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
    /// version, 146 for one more than [`COLLATIONS_MAX`].
    pub fn parse(spec: Doc<'_>) -> Result<Option<&'static Collation>> {
        Ok(match Spec::parse(spec)? {
            Some(spec) => Some(KNOWN.get(spec, COLLATIONS_MAX)?),
            None => None,
        })
    }

    /// Makes the collation of a stored specification known, however many there are: what is stored
    /// must stay readable. Anything but a specification is left to who reads it next.
    pub fn keep(spec: Value<'_>) {
        if let Value::Doc(spec) = spec
            && let Ok(Some(spec)) = Spec::parse(spec)
        {
            KNOWN.get(spec, usize::MAX).ok();
        }
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
    ///
    /// If a request has no memory for long texts, their order is that of their bytes, and the request ends: see
    /// [`meter::must_fit`](nagi_budget::meter::must_fit).
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        match a.len().max(b.len()) > long::LONG_BYTES {
            true => long::compare(&self.collator, a, b),
            false => self.collator.compare(a, b),
        }
    }

    /// Appends the key of a string: text whose bytes order as this collation orders the strings.
    /// Bytes beyond ASCII take two, as in the first page of Unicode, which keeps their order.
    ///
    /// If a request has no memory for that of a long text, nothing is appended, and the request ends: see
    /// [`meter::must_fit`](nagi_budget::meter::must_fit).
    pub fn key(&self, text: &str, out: &mut String) {
        if text.len() > long::LONG_BYTES {
            return long::key(&self.collator, text, out);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(locale: &str, strength: i32) -> Spec {
        let doc = DocBuf::build(|out| {
            out.put("locale", locale);
            out.put("strength", strength);
        });
        Spec::parse(doc.as_doc()).unwrap().unwrap()
    }

    #[test]
    fn known_collations_go_on_at_the_limit_and_new_ones_do_not() {
        let known = Known::default();
        let first = known.get(spec("de", 1), 2).unwrap();
        known.get(spec("de", 2), 2).unwrap();
        let error = known.get(spec("de", 3), 2).unwrap_err();
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT);
        assert!(std::ptr::eq(first, known.get(spec("de", 1), 2).unwrap()));
        // What is stored has no limit, and once known it is there for requests as well.
        let stored = known.get(spec("fr", 3), usize::MAX).unwrap();
        assert!(std::ptr::eq(stored, known.get(spec("fr", 3), 2).unwrap()));
    }
}
