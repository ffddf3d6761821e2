//! Dotted paths, and how a filter evaluates them.
//!
//! A path names fields ("a.b.2"). If a document on the path contains an array, the walk enters every element that is
//! a document, one level deep, and also the element whose position is the next component of the path.
//!
//! ```text
//!   path "a.b"    {a: {b: 1}}              yields 1
//!                 {a: [{b: 1}, 5, {}]}     yields 1 and Missing (5 is not a document)
//!                 {a: 7}                   yields Missing
//!                 {a: []}                  yields nothing
//!   path "a.0"    {a: [3, 4]}              yields 3
//! ```
//!
//! The cost is linear in the number of fields before the named ones, and nothing is allocated.

use std::sync::Arc;

use nagi_bson::{Array, Doc, NameTag, Value};
use nagi_error::Result;

/// A parsed dotted path; clones share it. The path without components denotes the value itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FieldPath {
    text: Arc<str>,
    parts: Arc<[Part]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    start: u32,
    end: u32,
    tag: NameTag,
    /// The component as an array position, or `NO_INDEX`.
    index: u32,
}

const NO_INDEX: u32 = u32::MAX;

/// The values that a path yields if it ends at an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// Each element, then the array itself: comparisons, `$in`, `$type`, ...
    Traverse,
    /// Only the array itself: `$size`, `$elemMatch`.
    Whole,
}

impl FieldPath {
    /// Splits at the dots. Empty components are kept; the caller decides if they are allowed.
    pub fn new(text: &str) -> FieldPath {
        let mut parts = Vec::new();
        let mut start = 0;
        for part in text.split('.') {
            let end = start + part.len();
            parts.push(Part {
                start: start as u32,
                end: end as u32,
                tag: NameTag::of(part),
                index: array_index(part).unwrap_or(NO_INDEX),
            });
            start = end + 1;
        }
        FieldPath { text: text.into(), parts: parts.into() }
    }

    /// The path without components, which denotes the value itself (inside of an `$elemMatch` with operators).
    pub fn root() -> FieldPath {
        FieldPath { text: "".into(), parts: Arc::new([]) }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number of components.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns true if this is [`FieldPath::root`].
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The component at `at`, which must be less than `len`.
    pub fn part(&self, at: usize) -> &str {
        let part = self.parts[at];
        &self.text[part.start as usize..part.end as usize]
    }

    /// The tag of the component at `at`.
    pub(crate) fn tag(&self, at: usize) -> NameTag {
        self.parts[at].tag
    }

    /// The value of the component at `at` in a document.
    pub(crate) fn step<'a>(&self, at: usize, doc: Doc<'a>) -> Value<'a> {
        doc.get_tagged(self.parts[at].tag, self.part(at))
    }

    /// The component at `at` as an array position ("0", "17", but not "01").
    pub fn index(&self, at: usize) -> Option<u32> {
        Some(self.parts[at].index).filter(|index| *index != NO_INDEX)
    }

    pub fn parts(&self) -> impl Iterator<Item = &str> + '_ {
        (0..self.len()).map(|at| self.part(at))
    }

    /// The first `count` components as text.
    pub fn prefix(&self, count: usize) -> &str {
        match count.checked_sub(1) {
            Some(last) => &self.text[..self.parts[last].end as usize],
            None => "",
        }
    }

    /// Returns true if `self` equals `other` or is a path above it.
    pub fn is_prefix_of(&self, other: &FieldPath) -> bool {
        self.len() <= other.len() && self.parts().eq(other.parts().take(self.len()))
    }

    /// Returns true if any component could be an array position.
    pub fn has_index(&self) -> bool {
        self.parts.iter().any(|part| part.index != NO_INDEX)
    }
}

impl std::fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.text, f)
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for FieldPath {
    fn from(text: &str) -> FieldPath {
        FieldPath::new(text)
    }
}

/// A path component as an array position: up to nine digits without a leading zero.
pub fn array_index(part: &str) -> Option<u32> {
    let bytes = part.as_bytes();
    let canonical = !bytes.is_empty()
        && bytes.len() <= 9
        && bytes.iter().all(u8::is_ascii_digit)
        && (bytes[0] != b'0' || bytes.len() == 1);
    if canonical { part.parse().ok() } else { None }
}

/// The value at a path that leads through documents, and through arrays only where a component is a position;
/// otherwise `Missing`. Arrays are not traversed implicitly.
pub fn lookup<'a>(doc: Doc<'a>, path: &FieldPath) -> Value<'a> {
    let mut value = Value::Doc(doc);
    for at in 0..path.len() {
        value = match value {
            Value::Doc(doc) => path.step(at, doc),
            Value::Array(array) => match path.index(at) {
                Some(index) => array.get(index as usize),
                None => Value::Missing,
            },
            _ => Value::Missing,
        };
        if value.is_missing() {
            break;
        }
    }
    value
}

/// Calls `test` with each value that the path yields, until it returns true.
///
/// The second argument of `test` is the element's position in the outermost array that was traversed implicitly: the
/// value of a positional `$`.
///
/// # Errors
/// The errors of `test`.
pub fn any<'a, F>(doc: Doc<'a>, path: &FieldPath, leaf: Leaf, test: &mut F) -> Result<bool>
where
    F: FnMut(Value<'a>, Option<u32>) -> Result<bool>,
{
    if path.is_empty() {
        return test(Value::Doc(doc), None);
    }
    walk(doc, path, 0, leaf, None, test)
}

/// Calls `visit` with every value that the path yields, including arrays at its end as wholes.
pub fn for_each_value<'a>(doc: Doc<'a>, path: &FieldPath, visit: &mut dyn FnMut(Value<'a>)) {
    let outcome = any(doc, path, Leaf::Traverse, &mut |value, _| {
        visit(value);
        Ok(false)
    });
    debug_assert!(outcome.is_ok());
}

/// Like [`any`], but starts at the value of the first component. The path must have at least one.
pub(crate) fn any_from<'a, F>(
    first: Value<'a>,
    path: &FieldPath,
    leaf: Leaf,
    test: &mut F,
) -> Result<bool>
where
    F: FnMut(Value<'a>, Option<u32>) -> Result<bool>,
{
    go_on(first, path, 1, leaf, None, test)
}

/// The test of each value; see [`any`].
trait Test<'a>: FnMut(Value<'a>, Option<u32>) -> Result<bool> {}

impl<'a, F: FnMut(Value<'a>, Option<u32>) -> Result<bool>> Test<'a> for F {}

fn walk<'a>(
    doc: Doc<'a>,
    path: &FieldPath,
    at: usize,
    leaf: Leaf,
    outer: Option<u32>,
    test: &mut impl Test<'a>,
) -> Result<bool> {
    go_on(path.step(at, doc), path, at + 1, leaf, outer, test)
}

/// Continues the walk below `value`, which the components before `at` led to.
fn go_on<'a>(
    mut value: Value<'a>,
    path: &FieldPath,
    mut at: usize,
    leaf: Leaf,
    outer: Option<u32>,
    test: &mut impl Test<'a>,
) -> Result<bool> {
    loop {
        match value {
            Value::Array(array) if at == path.len() => return end(array, leaf, outer, test),
            Value::Array(array) => return enter(array, path, at, leaf, outer, test),
            value if at == path.len() => return test(value, outer),
            Value::Doc(inner) => value = path.step(at, inner),
            _ => return test(Value::Missing, outer),
        }
        at += 1;
    }
}

/// The path ends at `array`.
fn end<'a>(
    array: Array<'a>,
    leaf: Leaf,
    outer: Option<u32>,
    test: &mut impl Test<'a>,
) -> Result<bool> {
    if leaf == Leaf::Traverse {
        for (index, value) in array.iter().enumerate() {
            if test(value, outer.or(Some(index as u32)))? {
                return Ok(true);
            }
        }
    }
    test(Value::Array(array), outer)
}

/// The path continues below `array` with the component `at`.
fn enter<'a>(
    array: Array<'a>,
    path: &FieldPath,
    at: usize,
    leaf: Leaf,
    outer: Option<u32>,
    test: &mut impl Test<'a>,
) -> Result<bool> {
    let wanted = path.index(at);
    for (index, value) in array.iter().enumerate() {
        let index = index as u32;
        if let Value::Doc(inner) = value
            && walk(inner, path, at, leaf, outer.or(Some(index)), test)?
        {
            return Ok(true);
        }
        if wanted != Some(index) {
            continue;
        }
        let found = match value {
            value if at + 1 == path.len() => test(value, outer)?,
            Value::Doc(inner) => walk(inner, path, at + 1, leaf, outer, test)?,
            Value::Array(inner) => enter(inner, path, at + 1, leaf, outer, test)?,
            _ => false,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
