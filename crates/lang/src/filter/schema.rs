//! `$jsonSchema`: JSON Schema draft 4 in MongoDB's dialect, as a tree of nodes that is walked together with the
//! value.
//!
//! A keyword constrains only values of its own type: `minimum` accepts every string. The parser is in `schema_parse`.

use std::{cmp::Ordering, collections::HashMap};

use foldhash::fast::RandomState;
use nagi_bson::{Array, Doc, Value, ValueBuf, compare, number};
use nagi_error::Result;

use super::TypeSet;
use super::schema_encrypt::Encrypt;
use crate::regex::Pattern;

/// A parsed schema and its source document.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(super) source: ValueBuf,
    pub(super) root: Node,
}

/// One level of a schema; an empty node accepts everything.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) types: Option<TypeSet>,
    pub(super) any_of_values: Option<Vec<ValueBuf>>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<ValueBuf>,
    pub(super) length: Range,
    pub(super) pattern: Option<Pattern>,
    pub(super) items_count: Range,
    pub(super) unique_items: bool,
    pub(super) items: Items,
    pub(super) additional_items: Rest,
    pub(super) properties_count: Range,
    pub(super) required: Vec<Box<str>>,
    /// The schemas of the named properties, sorted by name.
    pub(super) properties: Vec<(Box<str>, Node)>,
    pub(super) pattern_properties: Vec<(Pattern, Node)>,
    pub(super) additional_properties: Rest,
    pub(super) dependencies: Vec<(Box<str>, Dependency)>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
    pub(super) encrypt: Option<Encrypt>,
    pub(super) has_encrypt_metadata: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) value: ValueBuf,
    pub(super) exclusive: bool,
}

/// A range of counts, including both limits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Range {
    pub(super) min: Option<i64>,
    pub(super) max: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(super) enum Items {
    #[default]
    Any,
    Each(Box<Node>),
    List(Vec<Node>),
}

/// The value at a dotted path through documents. MongoDB treats a property name with a dot as a path.
fn below<'a>(doc: Doc<'a>, path: &str) -> Value<'a> {
    let mut at = Value::Doc(doc);
    for name in path.split('.') {
        at = at.as_doc().map_or(Value::Missing, |doc| doc.get(name));
    }
    at
}

/// The rule for items or properties that are not named.
#[derive(Debug, Clone, Default)]
pub(super) enum Rest {
    #[default]
    Allowed,
    Forbidden,
    Valid(Box<Node>),
}

#[derive(Debug, Clone)]
pub(super) enum Dependency {
    Fields(Vec<Box<str>>),
    Schema(Box<Node>),
}

impl Schema {
    /// The source document.
    pub fn source(&self) -> Value<'_> {
        self.source.value()
    }

    /// Returns true if the document is valid.
    ///
    /// # Errors
    /// An error of a pattern that takes too many steps.
    pub fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        self.root.valid(Value::Doc(doc))
    }
}

impl Range {
    fn holds(self, count: impl FnOnce() -> usize) -> bool {
        if self.min.is_none() && self.max.is_none() {
            return true;
        }
        let count = count() as i64;
        self.min.is_none_or(|min| count >= min) && self.max.is_none_or(|max| count <= max)
    }
}

impl Rest {
    fn valid(&self, value: Value<'_>) -> Result<bool> {
        match self {
            Rest::Allowed => Ok(true),
            Rest::Forbidden => Ok(false),
            Rest::Valid(node) => node.valid(value),
        }
    }
}

impl Node {
    fn valid(&self, value: Value<'_>) -> Result<bool> {
        if self.types.is_some_and(|types| !types.contains(value.kind())) {
            return Ok(false);
        }
        if let Some(values) = &self.any_of_values
            && !values.iter().any(|one| equal_unordered(one.value(), value))
        {
            return Ok(false);
        }
        if self.encrypt.is_some_and(|encrypt| !encrypt.holds(value)) {
            return Ok(false);
        }
        let own = match value {
            Value::String(text) => self.valid_text(text)?,
            Value::Array(items) => self.valid_items(items)?,
            Value::Doc(doc) => self.valid_fields(doc)?,
            value if value.is_number() => self.valid_number(value),
            _ => true,
        };
        Ok(own && self.valid_logic(value)?)
    }

    fn valid_number(&self, value: Value<'_>) -> bool {
        // NaN is not ordered: it is within an inclusive bound that is NaN, and within no other bound.
        let within = |bound: &Bound, side: Ordering| {
            let limit = bound.value.value();
            if is_nan(value) || is_nan(limit) {
                return !bound.exclusive && is_nan(value) && is_nan(limit);
            }
            let order = number::compare(value, limit);
            order == side || !bound.exclusive && order.is_eq()
        };
        let whole = |divisor: &ValueBuf| {
            let (Some(n), Some(by)) =
                (number::as_decimal(value), number::as_decimal(divisor.value()))
            else {
                return false;
            };
            !n.is_infinite() && !n.is_nan() && n.rem(by).is_zero()
        };
        self.minimum.as_ref().is_none_or(|bound| within(bound, Ordering::Greater))
            && self.maximum.as_ref().is_none_or(|bound| within(bound, Ordering::Less))
            && self.multiple_of.as_ref().is_none_or(whole)
    }

    fn valid_text(&self, text: &str) -> Result<bool> {
        if !self.length.holds(|| text.chars().count()) {
            return Ok(false);
        }
        self.pattern.as_ref().map_or(Ok(true), |pattern| pattern.is_match(text))
    }

    fn valid_items(&self, items: Array<'_>) -> Result<bool> {
        if !self.items_count.holds(|| items.count()) {
            return Ok(false);
        }
        if self.unique_items && first_duplicate(items).is_some() {
            return Ok(false);
        }
        for (at, value) in items.iter().enumerate() {
            let valid = match &self.items {
                Items::Any => break,
                Items::Each(node) => node.valid(value)?,
                Items::List(nodes) => match nodes.get(at) {
                    Some(node) => node.valid(value)?,
                    None => self.additional_items.valid(value)?,
                },
            };
            if !valid {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn valid_fields(&self, doc: Doc<'_>) -> Result<bool> {
        if !self.properties_count.holds(|| doc.count())
            || self.required.iter().any(|name| doc.get(name).is_missing())
        {
            return Ok(false);
        }
        for element in doc {
            if !self.valid_field(element.name(), element.value())? {
                return Ok(false);
            }
        }
        for (name, node) in self.properties.iter().filter(|(name, _)| name.contains('.')) {
            let value = below(doc, name);
            if !value.is_missing() && !node.valid(value)? {
                return Ok(false);
            }
        }
        for (name, dependency) in &self.dependencies {
            if doc.get(name).is_missing() {
                continue;
            }
            let valid = match dependency {
                Dependency::Fields(names) => names.iter().all(|n| !doc.get(n).is_missing()),
                Dependency::Schema(node) => node.valid(Value::Doc(doc))?,
            };
            if !valid {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn valid_field(&self, name: &str, value: Value<'_>) -> Result<bool> {
        let mut named = false;
        let at = self.properties.partition_point(|(other, _)| **other < *name);
        if let Some((other, node)) = self.properties.get(at)
            && **other == *name
        {
            named = true;
            if !node.valid(value)? {
                return Ok(false);
            }
        }
        for (pattern, node) in &self.pattern_properties {
            if pattern.is_match(name)? {
                named = true;
                if !node.valid(value)? {
                    return Ok(false);
                }
            }
        }
        if named { Ok(true) } else { self.additional_properties.valid(value) }
    }

    fn valid_logic(&self, value: Value<'_>) -> Result<bool> {
        for node in &self.all_of {
            if !node.valid(value)? {
                return Ok(false);
            }
        }
        let count = |nodes: &[Node]| -> Result<usize> {
            let mut count = 0;
            for node in nodes {
                count += usize::from(node.valid(value)?);
            }
            Ok(count)
        };
        if !self.any_of.is_empty() && count(&self.any_of)? == 0 {
            return Ok(false);
        }
        if !self.one_of.is_empty() && count(&self.one_of)? != 1 {
            return Ok(false);
        }
        match &self.not {
            Some(node) => Ok(!node.valid(value)?),
            None => Ok(true),
        }
    }
}

fn is_nan(value: Value<'_>) -> bool {
    match value {
        Value::Double(n) => n.is_nan(),
        Value::Decimal128(n) => n.is_nan(),
        _ => false,
    }
}

/// Equality that ignores the order of the fields of documents.
pub(super) fn equal_unordered(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Doc(a), Value::Doc(b)) => {
            a.count() == b.count()
                && a.iter().all(|field| {
                    let other = b.get(field.name());
                    !other.is_missing() && equal_unordered(field.value(), other)
                })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.count() == b.count() && a.iter().zip(b.iter()).all(|(a, b)| equal_unordered(a, b))
        }
        (a, b) => compare::class(a) == compare::class(b) && compare::equal(a, b),
    }
}

/// The first element that equals an earlier one. It uses hashes, so that the cost is not quadratic in the length.
pub(super) fn first_duplicate<'a>(items: Array<'a>) -> Option<Value<'a>> {
    let mut seen: HashMap<u64, Vec<Value<'_>>, RandomState> = HashMap::default();
    items.iter().find(|value| {
        let bucket = seen.entry(hash_unordered(*value)).or_default();
        let found = bucket.iter().any(|other| equal_unordered(*other, *value));
        bucket.push(*value);
        found
    })
}

/// A hash that is consistent with [`equal_unordered`].
fn hash_unordered(value: Value<'_>) -> u64 {
    match value {
        Value::Doc(doc) => doc.iter().fold(1, |sum: u64, field| {
            let name = compare::hash_of(Value::String(field.name()));
            sum.wrapping_add(name.rotate_left(7) ^ hash_unordered(field.value()))
        }),
        Value::Array(items) => items
            .iter()
            .fold(2, |hash: u64, item| hash.wrapping_mul(31).wrapping_add(hash_unordered(item))),
        scalar => compare::hash_of(scalar),
    }
}
