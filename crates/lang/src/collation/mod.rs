//! Collations: the order of strings by the rules of a language instead of by their bytes.
//!
//! ```text
//!   {locale: "fr", strength: 2} --parse--> Spec --interned--> &'static Collation
//!                                                               compare(a, b)    in filters, expressions, sorts
//!                                                               key(a) as text   in index keys and hashes
//! ```
//!
//! The rest of the code has a collation as `Option<&'static Collation>`. None is the simple collation, which compares
//! bytes and does not use this module. The option is one word and `Copy`; it is part of parsed filters, expressions,
//! sorts and index specifications.
//!
//! A *key* is a text whose bytes have the order that the collation gives to the original strings. Before values are
//! hashed, or encoded to be compared as bytes, their strings are replaced by keys ([`Collation::keyed`]), also in
//! embedded documents and arrays. The following code does not need to know the collation.
//!
//! Invariants
//! - There is one `Collation` per distinct specification, for the life of the process. There are about 170 locales
//!   and 960 combinations of options. Requests may create up to [`COLLATIONS_MAX`] of them, about 4 MB.
//! - `compare(a, b)` equals the byte order of `key(a)` and `key(b)`.
//! - A text of any length needs bounded memory, or its request is cancelled: see [`long`].
//!
//! This module does not know which operation uses which collation (the default of a collection or view).

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

/// An order of strings. Two collations are equal exactly if they have the same address.
pub struct Collation {
    spec: Spec,
    /// The complete specification, with every field, for listings.
    form: DocBuf,
    collator: CollatorBorrowed<'static>,
}

/// The maximal number of distinct collations that requests may create in the life of a process. Each is kept and uses
/// about 400 bytes. The collations of stored catalogs are not limited.
pub const COLLATIONS_MAX: usize = 10_000;

/// The collations that exist.
#[derive(Default)]
struct Known(RwLock<HashMap<Spec, &'static Collation, RandomState>>);

static KNOWN: LazyLock<Known> = LazyLock::new(Known::default);

impl Known {
    /// The collation of a specification. It is created if it does not exist and there are fewer than `max`.
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

/// The collation that an operation specifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asked {
    /// None is specified: the default of the collection or view applies.
    #[default]
    Inherited,
    /// The given collation; none is the simple one.
    Given(Option<&'static Collation>),
}

impl Asked {
    /// Parses the `collation` of a command. An absent one and `{}` are [`Asked::Inherited`].
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

    /// The collation of an operation on a collection or view with this default.
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
    /// 40414 without `locale`, 40415 for an unknown field, 14 for a wrong type, 2 for an unknown locale or a value
    /// outside of an enumeration, 9 for other fields beside `simple`, 161 for another version, 146 if there are
    /// already [`COLLATIONS_MAX`].
    pub fn parse(spec: Doc<'_>) -> Result<Option<&'static Collation>> {
        Ok(match Spec::parse(spec)? {
            Some(spec) => Some(KNOWN.get(spec, COLLATIONS_MAX)?),
            None => None,
        })
    }

    /// Creates the collation of a stored specification, without a limit, because stored data must stay readable. An
    /// invalid specification is ignored here; its next reader reports it.
    pub fn keep(spec: Value<'_>) {
        if let Value::Doc(spec) = spec
            && let Ok(Some(spec)) = Spec::parse(spec)
        {
            KNOWN.get(spec, usize::MAX).ok();
        }
    }

    /// The options with their values.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The specification with all defaults filled in, as it is listed and stored.
    pub fn as_doc(&self) -> Doc<'_> {
        self.form.as_doc()
    }

    /// Compares two strings. A common prefix is skipped.
    ///
    /// If a request does not have the memory to compare long texts, the result is the order of their bytes and the
    /// request is cancelled: see [`meter::must_fit`](nagi_budget::meter::must_fit).
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        match a.len().max(b.len()) > long::LONG_BYTES {
            true => long::compare(&self.collator, a, b),
            false => self.collator.compare(a, b),
        }
    }

    /// Appends the key of a string: a text whose bytes have the order that this collation gives to the strings. A key
    /// byte above 127 becomes the character with the same number and so two bytes, which keeps the order.
    ///
    /// If a request does not have the memory for the key of a long text, nothing is appended and the request is
    /// cancelled: see [`meter::must_fit`](nagi_budget::meter::must_fit).
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

/// The bytes of the sort key in a key, as hexadecimal digits. Explain shows index keys in this form.
pub fn key_hex(key: &str) -> String {
    key.chars().map(|c| format!("{:02x}", u32::from(c))).collect()
}

/// Writes `name` with the complete specification; nothing for the simple collation.
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
        // Stored collations have no limit, and requests may use them once they exist.
        let stored = known.get(spec("fr", 3), usize::MAX).unwrap();
        assert!(std::ptr::eq(stored, known.get(spec("fr", 3), 2).unwrap()));
    }
}
