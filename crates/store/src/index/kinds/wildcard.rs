//! Wildcard indexes: index every path of a document, or of a part of it, with its value.
//!
//! ```text
//!   {"$**": 1}   {a: {b: 1}, c: [2, {d: 3}], e: {}}     ("a.b", 1) ("c", 2) ("c.d", 3) ("e", {})
//! ```
//! A key consists of the path and the value, at the wildcard's position in the key pattern; the other fields of a
//! compound pattern precede or follow. Embedded documents are traversed, also as elements of an array; an array
//! within an array is one value; an empty array is undefined. A document in which nothing is indexed has the key of
//! an empty document, so every value has a key at its path or below.
//!
//! Plans read one path at a time: [`Index::at_path`] is the index of exactly that path, an ordinary index whose key
//! pattern begins with `$_path`. The paths with arrays are kept in a set of 4096 bits, by the path's hash: two
//! paths that share a bit both count as arrays, which costs time but never gives wrong results.

use std::sync::Arc;

use nagi_bson::{Array, Doc, DocBuf, Type, Value, number, text::doc_text};
use nagi_error::{Code, Result, bail};

use crate::index::{
    Index, IndexSpec, KeyPart, Multikey, PathField,
    keygen::{self, KeySink},
    kind::{Details, KindFacts, NamedBy, PATH_FIELD, Parsed},
    spec::Shape,
};

/// Words of the set of array paths.
const WORDS: usize = 64;
/// The option for the indexed paths.
const PROJECTION: &str = "wildcardProjection";

pub(super) static WILDCARD: KindFacts = KindFacts {
    name: "wildcard",
    named_by: NamedBy::Path,
    options: &[(PROJECTION, Shape::Document)],
    claims,
    parse,
    keys,
    at_path,
    multikey_words: Some(WORDS),
    by_path: true,
    ..KindFacts::ROW
};

/// The definition of a wildcard index.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wildcard {
    /// Position of the wildcard in the key pattern.
    at: usize,
    /// Root of the indexed subtree; empty for the whole document.
    root: Box<str>,
    /// `wildcardProjection`: true if the paths are included (not excluded), and the paths.
    paths: Option<(bool, Box<[Box<str>]>)>,
    /// True if `_id` is indexed.
    with_id: bool,
    /// For [`Index::at_path`]: the path, which is the field `at`; its value is the next field.
    path: Option<Box<str>>,
}

impl Details for Wildcard {
    fn same_signature(&self, other: &dyn Details) -> bool {
        other.get() == Some(self)
    }

    fn path_field(&self) -> Option<PathField<'_>> {
        Some(PathField { at: self.at, path: self.path.as_deref() })
    }
}

/// The relation of a path to the indexed part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It and all below.
    Whole,
    /// Only a part below the path is indexed.
    Below,
    Nothing,
}

/// Returns true if `path` is `root` or below it.
fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Wildcard {
    fn part(&self, path: &str) -> Part {
        if is_within(path, "_id") && self.root.is_empty() && !self.with_id {
            return Part::Nothing;
        }
        if !self.root.is_empty() {
            return match path {
                path if is_within(path, &self.root) => Part::Whole,
                path if is_within(&self.root, path) => Part::Below,
                _ => Part::Nothing,
            };
        }
        let Some((included, paths)) = &self.paths else { return Part::Whole };
        if is_within(path, "_id") {
            return Part::Whole;
        }
        let within = paths.iter().any(|named| is_within(path, named));
        let around = paths.iter().any(|named| is_within(named, path));
        match (included, within, around) {
            (true, true, _) => Part::Whole,
            (true, false, true) => Part::Below,
            (true, false, false) => Part::Nothing,
            (false, true, _) => Part::Nothing,
            (false, false, true) => Part::Below,
            (false, false, false) => Part::Whole,
        }
    }

    /// Returns true if plans may use this path: it and everything below is indexed, and keys distinguish its
    /// components.
    fn serves(&self, path: &str) -> bool {
        self.path.is_none()
            && self.part(path) == Part::Whole
            && !path.is_empty()
            && path.split('.').all(|part| {
                !part.is_empty()
                    && !part.starts_with('$')
                    && !part.bytes().all(|byte| byte.is_ascii_digit())
            })
    }
}

/// Returns true if a key pattern has a wildcard; without one the projection is refused.
fn claims(spec: Doc<'_>, key: &[KeyPart]) -> Result<bool> {
    let is_claimed = key.iter().any(is_wild);
    if !is_claimed && !spec.get(PROJECTION).is_missing() {
        bail!(
            Code::BAD_VALUE,
            "The field 'wildcardProjection' is only allowed in an 'wildcard' index"
        );
    }
    Ok(is_claimed)
}

/// The wildcard of a key pattern that has one. Checks the restrictions that only wildcards have.
///
/// # Errors
/// 2, 9, 14, 67.
fn parse(spec: Doc<'_>, key: &[KeyPart]) -> Result<Parsed> {
    let projection = spec.get(PROJECTION);
    let Some(at) = key.iter().position(is_wild) else { return Ok(None) };
    if key.iter().filter(|part| is_wild(part)).count() > 1 {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "wildcard indexes do not allow more than one wildcard field: {}",
            doc_text(spec)
        );
    }
    let path = &key[at].path;
    let root = path.strip_suffix("$**").map(|root| root.trim_end_matches('.')).unwrap_or("");
    check(spec, &key[at])?;
    let mut out = Wildcard { at, root: root.into(), paths: None, with_id: false, path: None };
    if !projection.is_missing() {
        out.project(projection)?;
    }
    if key.len() > 1 {
        check_compound(&out, key)?;
    }
    Ok(Some(Arc::new(out)))
}

/// Returns true if a field of a key pattern is a wildcard.
fn is_wild(part: &KeyPart) -> bool {
    &*part.path == "$**" || part.path.ends_with(".$**")
}

fn check(spec: Doc<'_>, part: &KeyPart) -> Result<()> {
    for option in ["unique", "sparse"] {
        if spec.get(option).is_truthy() {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "Index type 'wildcard' does not support the {option} option"
            );
        }
    }
    if !spec.get("expireAfterSeconds").is_missing() {
        bail!(Code::CANNOT_CREATE_INDEX, "Index type 'wildcard' cannot be a TTL index");
    }
    if part.is_hashed() || part.is_geometry() {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "Wildcard indexes do not support an index plugin: {}",
            doc_text(spec)
        );
    }
    if part.descending {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "A numeric value in a $** index key pattern must be positive."
        );
    }
    Ok(())
}

/// Checks that the other fields are not part of the indexed subtree, and are plain.
fn check_compound(wild: &Wildcard, key: &[KeyPart]) -> Result<()> {
    if wild.root.is_empty() && wild.paths.is_none() {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "wildcardProjection is required for a compound wildcard index on all fields"
        );
    }
    for (_, part) in key.iter().enumerate().filter(|(at, _)| *at != wild.at) {
        if part.is_hashed() || part.is_geometry() {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "compound wildcard indexes do not support an index plugin: {}",
                part.path
            );
        }
        if wild.part(&part.path) != Part::Nothing {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "the field '{}' of a compound wildcard index overlaps with its wildcard field",
                part.path
            );
        }
    }
    Ok(())
}

impl Wildcard {
    /// Parses `wildcardProjection`.
    fn project(&mut self, projection: Value<'_>) -> Result<()> {
        let Value::Doc(projection) = projection else {
            bail!(
                Code::TYPE_MISMATCH,
                "The field 'wildcardProjection' must be a non-empty object, but got {}",
                projection.kind().name()
            );
        };
        if !self.root.is_empty() {
            bail!(
                Code::FAILED_TO_PARSE,
                "The field 'wildcardProjection' is only allowed when 'key' is {{\"$**\": 1}}"
            );
        }
        if projection.is_empty() {
            bail!(Code::FAILED_TO_PARSE, "The 'wildcardProjection' field can't be an empty object");
        }
        let mut named = Vec::new();
        flatten("", projection, 0, &mut named)?;
        if let Some(at) = named.iter().position(|(path, _)| path == "_id") {
            self.with_id = named.remove(at).1;
        }
        let included = named.first().map_or(self.with_id, |(_, kept)| *kept);
        if let Some((path, kept)) = named.iter().find(|(_, kept)| *kept != included) {
            let (code, word, what) = match kept {
                true => (31253, "inclusion", "exclusion"),
                false => (31254, "exclusion", "inclusion"),
            };
            bail!(Code::Location(code), "Cannot do {word} on field {path} in {what} projection");
        }
        let mut paths: Box<[Box<str>]> = named.into_iter().map(|(path, _)| path.into()).collect();
        // Projections with the same names are equal.
        paths.sort_unstable();
        self.paths = Some((included, paths));
        Ok(())
    }
}

/// The paths of a projection that only includes or excludes.
fn flatten(prefix: &str, spec: Doc<'_>, depth: u32, out: &mut Vec<(String, bool)>) -> Result<()> {
    for element in spec {
        let name = element.name();
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if name.is_empty() || path.split('.').any(|part| part.is_empty() || part.starts_with('$')) {
            bail!(
                Code::FAILED_TO_PARSE,
                "wildcardProjection may only include or exclude fields, got '{path}'"
            );
        }
        match element.value() {
            Value::Doc(inner) if depth < 100 && !inner.is_empty() => {
                flatten(&path, inner, depth + 1, out)?;
            }
            value if value.is_number() || value.kind() == Type::Bool => {
                let kept = number::as_f64(value).map_or(value.is_truthy(), |n| n != 0.0);
                out.push((path, kept));
            }
            other => bail!(
                Code::FAILED_TO_PARSE,
                "wildcardProjection may only include or exclude fields, '{path}' is a {}",
                other.kind().name()
            ),
        }
    }
    Ok(())
}

/// The bit of a path in the set of array paths: word and mask.
fn bit(path: &str) -> (usize, u64) {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for byte in path.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash ^= hash >> 32;
    ((hash >> 6) as usize % WORDS, 1 << (hash & 63))
}

/// State of the key generation for a document.
struct Walk<'w, 'd> {
    spec: &'w IndexSpec,
    wild: &'w Wildcard,
    /// The other fields; the value at the wildcard's position is not used.
    values: Vec<Value<'d>>,
    path: String,
    sink: &'w mut KeySink,
}

/// Fills `sink` with the keys of `doc`; none if nothing below the wildcard exists.
///
/// # Errors
/// 7246301 for an array at another field of a compound index.
fn keys(spec: &IndexSpec, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    sink.reset(WORDS);
    let Some(wild) = spec.details::<Wildcard>() else { return Ok(()) };
    let mut values = Vec::with_capacity(spec.key.len());
    for (at, part) in spec.key.iter().enumerate() {
        values.push(match keygen::scalar(doc, &part.path) {
            _ if at == wild.at => Value::Missing,
            Some(value) => value,
            None => bail!(
                Code::Location(7_246_301),
                "field {} cannot be indexed as an array (multikey)",
                part.path
            ),
        });
    }
    let mut walk = Walk { spec, wild, values, path: String::new(), sink };
    walk.document(doc)?;
    sink.sort();
    Ok(())
}

impl<'d> Walk<'_, 'd> {
    /// Visits the fields of a document at the current path.
    fn document(&mut self, doc: Doc<'d>) -> Result<()> {
        for element in doc {
            let name = element.name();
            // Such names are not reachable by dotted paths.
            if name.is_empty() || name.contains('.') {
                continue;
            }
            let len = self.path.len();
            if len > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let part = self.wild.part(&self.path);
            if part != Part::Nothing {
                self.value(element.value(), part)?;
            }
            self.path.truncate(len);
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'d>, part: Part) -> Result<()> {
        match value {
            Value::Doc(doc) => self.inner(doc, part),
            Value::Array(array) => self.array(array, part),
            value if part == Part::Whole => self.put(value),
            _ => Ok(()),
        }
    }

    fn inner(&mut self, doc: Doc<'d>, part: Part) -> Result<()> {
        let before = self.sink.len();
        self.document(doc)?;
        if part == Part::Whole && self.sink.len() == before {
            return self.put(Value::Doc(Doc::EMPTY));
        }
        Ok(())
    }

    fn array(&mut self, array: Array<'d>, part: Part) -> Result<()> {
        let (word, mask) = bit(&self.path);
        self.sink.multikey[word] |= mask;
        if array.is_empty() && part == Part::Whole {
            return self.put(Value::Undefined);
        }
        for element in array.iter() {
            match element {
                Value::Doc(doc) => self.inner(doc, part)?,
                element if part == Part::Whole => self.put(element)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, value: Value<'_>) -> Result<()> {
        self.sink.push_at_path(self.spec, &self.values, (self.wild.at, &self.path), value)
    }
}

/// The index of one path, see [`Index::at_path`].
fn at_path(index: &Index, path: &str) -> Option<Arc<Index>> {
    let wild = index.spec.details::<Wildcard>().filter(|wild| wild.serves(path))?;
    let mut spec = index.spec.clone();
    let mut key = spec.key.into_vec();
    key[wild.at].path = path.into();
    key.insert(wild.at, KeyPart { path: PATH_FIELD.into(), ..key[wild.at].clone() });
    spec.key = key.into();
    spec.key_pattern = DocBuf::build(|out| {
        for (at, field) in index.spec.key_pattern.as_doc().iter().enumerate() {
            if at == wild.at {
                out.put(PATH_FIELD, 1);
                out.put(path, field.value());
            } else {
                out.put(field.name(), field.value());
            }
        }
    });
    spec.set_details(Arc::new(Wildcard { path: Some(path.into()), ..wild.clone() }));
    let changed = Arc::clone(&index.multikey.changed);
    let multikey = Multikey { changed, ..Multikey::new(spec.key.len()) };
    let mut end = 0;
    let mut bits = 0;
    for (at, component) in path.split('.').enumerate() {
        end += component.len() + usize::from(at > 0);
        let (word, mask) = bit(&path[..end]);
        if index.multikey_components(word) & mask != 0 {
            bits |= 1u64.checked_shl(at as u32).unwrap_or(1 << 63);
        }
    }
    multikey.seen[wild.at + 1].store(bits, std::sync::atomic::Ordering::Relaxed);
    Some(Arc::new(index.viewed(spec, multikey)))
}
