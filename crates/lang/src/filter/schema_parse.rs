//! The parser of `$jsonSchema`.
//!
//! Every keyword is checked for its type (14) and its value (9). Unknown keywords and draft 4 keywords that MongoDB
//! does not support are rejected (9).

use std::collections::HashSet;

use nagi_bson::{Array, Doc, Type, Value, ValueBuf, number};
use nagi_error::{Code, Result, bail, err};

use super::TypeSet;
use super::schema::{Bound, Dependency, Items, Node, Rest, Schema, first_duplicate};
use super::schema_encrypt::{self, Encrypt};
use crate::memory;
use crate::regex::Pattern;

/// Draft 4 keywords that MongoDB rejects by name.
const UNSUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

/// Pairs of keywords of which a schema may have only one.
const EXCLUSIVE: [(&str, &str); 4] = [
    ("type", "bsonType"),
    ("encrypt", "encryptMetadata"),
    ("encrypt", "type"),
    ("encrypt", "bsonType"),
];

impl Schema {
    /// Parses a schema.
    ///
    /// # Errors
    /// 9 and 14 as described above, 2 for unknown type names.
    pub fn parse(doc: Doc<'_>) -> Result<Schema> {
        Ok(Schema { source: ValueBuf::new(Value::Doc(doc)), root: Node::parse(doc)? })
    }
}

impl Node {
    fn parse(doc: Doc<'_>) -> Result<Node> {
        memory::check()?;
        for element in doc {
            let name = element.name();
            if UNSUPPORTED.contains(&name) {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "$jsonSchema keyword '{name}' is not currently supported"
                );
            }
            if KEYWORDS.binary_search_by_key(&name, |row| row.0).is_err() {
                bail!(Code::FAILED_TO_PARSE, "Unknown $jsonSchema keyword: {name}");
            }
            if doc.iter().filter(|other| other.name() == name).count() > 1 {
                bail!(Code::FAILED_TO_PARSE, "Duplicate $jsonSchema keyword: {name}");
            }
        }
        for (one, other) in EXCLUSIVE {
            if !doc.get(one).is_missing() && !doc.get(other).is_missing() {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "Cannot specify both $jsonSchema keywords '{one}' and '{other}'"
                );
            }
        }
        let mut node = Node::default();
        for element in doc {
            if let Ok(at) = KEYWORDS.binary_search_by_key(&element.name(), |row| row.0) {
                KEYWORDS[at].1(
                    &mut node,
                    Keyword { name: KEYWORDS[at].0, value: element.value() },
                )?;
            }
        }
        node.exclusive(doc)?;
        Ok(node)
    }

    /// Applies `exclusiveMinimum` and `exclusiveMaximum` to their sibling bounds.
    fn exclusive(&mut self, doc: Doc<'_>) -> Result<()> {
        let pairs = [
            ("exclusiveMinimum", "minimum", &mut self.minimum),
            ("exclusiveMaximum", "maximum", &mut self.maximum),
        ];
        for (name, base, bound) in pairs {
            match (doc.get(name), bound) {
                (Value::Missing, _) => {}
                (Value::Bool(exclusive), Some(bound)) => bound.exclusive = exclusive,
                (_, None) => bail!(
                    Code::FAILED_TO_PARSE,
                    "$jsonSchema keyword '{base}' must be a present if {name} is present"
                ),
                _ => bail!(Code::TYPE_MISMATCH, "$jsonSchema keyword '{name}' must be a boolean"),
            }
        }
        Ok(())
    }
}

/// One keyword with its value.
#[derive(Clone, Copy)]
pub(super) struct Keyword<'v> {
    pub(super) name: &'static str,
    pub(super) value: Value<'v>,
}

type ParseKeyword = for<'v> fn(&mut Node, Keyword<'v>) -> Result<()>;

/// All keywords, sorted by name.
static KEYWORDS: &[(&str, ParseKeyword)] = &[
    ("additionalItems", |n, k| k.rest().map(|rest| n.additional_items = rest)),
    ("additionalProperties", |n, k| k.rest().map(|rest| n.additional_properties = rest)),
    ("allOf", |n, k| k.schemas().map(|nodes| n.all_of = nodes)),
    ("anyOf", |n, k| k.schemas().map(|nodes| n.any_of = nodes)),
    ("bsonType", |n, k| k.types(TypeSet::by_name).map(|types| n.types = Some(types))),
    ("dependencies", |n, k| k.dependencies().map(|all| n.dependencies = all)),
    ("description", |_, k| k.annotation()),
    ("encrypt", |n, k| {
        k.object().and_then(Encrypt::parse).map(|encrypt| n.encrypt = Some(encrypt))
    }),
    ("encryptMetadata", |n, k| {
        k.object().and_then(schema_encrypt::check_metadata).map(|()| n.has_encrypt_metadata = true)
    }),
    ("enum", |n, k| k.values().map(|values| n.any_of_values = Some(values))),
    ("exclusiveMaximum", |_, _| Ok(())),
    ("exclusiveMinimum", |_, _| Ok(())),
    ("items", |n, k| k.items().map(|items| n.items = items)),
    ("maxItems", |n, k| k.count().map(|c| n.items_count.max = Some(c))),
    ("maxLength", |n, k| k.count().map(|c| n.length.max = Some(c))),
    ("maxProperties", |n, k| k.count().map(|c| n.properties_count.max = Some(c))),
    ("maximum", |n, k| k.bound().map(|bound| n.maximum = Some(bound))),
    ("minItems", |n, k| k.count().map(|c| n.items_count.min = Some(c))),
    ("minLength", |n, k| k.count().map(|c| n.length.min = Some(c))),
    ("minProperties", |n, k| k.count().map(|c| n.properties_count.min = Some(c))),
    ("minimum", |n, k| k.bound().map(|bound| n.minimum = Some(bound))),
    ("multipleOf", |n, k| k.divisor().map(|by| n.multiple_of = Some(by))),
    ("not", |n, k| k.schema_of_not().map(|node| n.not = Some(Box::new(node)))),
    ("oneOf", |n, k| k.schemas().map(|nodes| n.one_of = nodes)),
    ("pattern", |n, k| k.pattern().map(|pattern| n.pattern = Some(pattern))),
    ("patternProperties", |n, k| k.patterns().map(|all| n.pattern_properties = all)),
    ("properties", |n, k| k.properties().map(|all| n.properties = all)),
    ("required", |n, k| k.names(k.value).map(|names| n.required = names)),
    ("title", |_, k| k.annotation()),
    ("type", |n, k| k.types(json_type).map(|types| n.types = Some(types))),
    ("uniqueItems", |n, k| k.flag().map(|flag| n.unique_items = flag)),
];

/// The types of JSON, by their names in draft 4.
fn json_type(name: &str) -> Option<TypeSet> {
    Some(match name {
        "array" => TypeSet::of(Type::Array),
        "boolean" => TypeSet::of(Type::Bool),
        "null" => TypeSet::of(Type::Null),
        "number" => TypeSet::NUMBERS,
        "object" => TypeSet::of(Type::Object),
        "string" => TypeSet::of(Type::String),
        _ => return None,
    })
}

impl<'v> Keyword<'v> {
    fn wrong<T>(self, what: &str) -> Result<T> {
        bail!(Code::TYPE_MISMATCH, "$jsonSchema keyword '{}' must be {what}", self.name)
    }

    fn refused<T>(self, what: &str) -> Result<T> {
        bail!(Code::FAILED_TO_PARSE, "$jsonSchema keyword '{}' {what}", self.name)
    }

    fn text(self) -> Result<&'v str> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => self.wrong("a string"),
        }
    }

    fn annotation(self) -> Result<()> {
        match self.value {
            Value::String(_) => Ok(()),
            _ => self.wrong("of type string"),
        }
    }

    fn flag(self) -> Result<bool> {
        match self.value {
            Value::Bool(flag) => Ok(flag),
            _ => self.wrong("a boolean"),
        }
    }

    fn object(self) -> Result<Doc<'v>> {
        match self.value {
            Value::Doc(doc) => Ok(doc),
            _ => self.wrong("an object"),
        }
    }

    fn pattern(self) -> Result<Pattern> {
        Pattern::new(self.text()?, "")
    }

    fn bound(self) -> Result<Bound> {
        if !self.value.is_number() {
            return self.wrong("a number");
        }
        Ok(Bound { value: ValueBuf::new(self.value), exclusive: false })
    }

    fn divisor(self) -> Result<ValueBuf> {
        if !self.value.is_number() {
            return self.wrong("a number");
        }
        if !number::compare(self.value, Value::Int32(0)).is_gt() {
            return self.refused("must have a positive value");
        }
        Ok(ValueBuf::new(self.value))
    }

    fn count(self) -> Result<i64> {
        let (name, value) = (self.name, self.value);
        number::non_negative_integer(value)
            .map_err(|reason| err!(Code::FAILED_TO_PARSE, "{}", reason.describe(name, value)))
    }

    pub(super) fn types(self, by_name: fn(&str) -> Option<TypeSet>) -> Result<TypeSet> {
        let one = |name: &str| {
            if name == "integer" {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "$jsonSchema type 'integer' is not currently supported."
                );
            }
            by_name(name).ok_or_else(|| err!(Code::BAD_VALUE, "Unknown type name alias: {name}"))
        };
        match self.value {
            Value::String(name) => one(name),
            Value::Array(list) if list.is_empty() => self.refused("must name at least one type"),
            Value::Array(list) => {
                let mut set = TypeSet::EMPTY;
                let mut seen: Vec<&str> = Vec::new();
                for value in list.iter() {
                    let Value::String(name) = value else {
                        bail!(
                            Code::TYPE_MISMATCH,
                            "$jsonSchema keyword '{}' array elements must be strings",
                            self.name
                        );
                    };
                    if seen.contains(&name) {
                        return self.refused(&format!("has duplicate value: {name}"));
                    }
                    seen.push(name);
                    set = set.union(one(name)?);
                }
                Ok(set)
            }
            _ => self.wrong("either a string or an array of strings"),
        }
    }

    fn values(self) -> Result<Vec<ValueBuf>> {
        let Value::Array(list) = self.value else {
            let kind = self.value.kind().name();
            return self.wrong(&format!("an array, but found an element of type {kind}"));
        };
        if list.is_empty() {
            return self.refused("cannot be an empty array");
        }
        if first_duplicate(list).is_some() {
            return self.refused("array cannot contain duplicate values.");
        }
        Ok(list.iter().map(ValueBuf::new).collect())
    }

    /// Parses an array of distinct field names.
    fn names(self, value: Value<'v>) -> Result<Vec<Box<str>>> {
        let Value::Array(list) = value else {
            let kind = value.kind().name();
            return self.wrong(&format!("an array, but found an element of type {kind}"));
        };
        if list.is_empty() {
            return self.refused("cannot be an empty array");
        }
        let mut out: Vec<Box<str>> = Vec::new();
        let mut seen = HashSet::new();
        for value in list.iter() {
            let Value::String(name) = value else {
                let kind = value.kind().name();
                return self
                    .wrong(&format!("an array of strings, but found an element of type: {kind}"));
            };
            if !seen.insert(name) {
                return self.refused("array cannot contain duplicate values");
            }
            out.push(name.into());
        }
        Ok(out)
    }

    fn schemas(self) -> Result<Vec<Node>> {
        let Value::Array(list) = self.value else { return self.wrong("an array") };
        if list.is_empty() {
            bail!(Code::BAD_VALUE, "$jsonSchema keyword '{}' must be a non-empty array", self.name);
        }
        self.nodes(list)
    }

    fn nodes(self, list: Array<'_>) -> Result<Vec<Node>> {
        list.iter()
            .map(|value| match value {
                Value::Doc(doc) => Node::parse(doc),
                other => self.wrong(&format!(
                    "an array of objects, but found an element of type {}",
                    other.kind().name()
                )),
            })
            .collect()
    }

    fn schema_of_not(self) -> Result<Node> {
        match self.value {
            Value::Doc(doc) => Node::parse(doc),
            other => self
                .wrong(&format!("an object, but found an element of type {}", other.kind().name())),
        }
    }

    fn items(self) -> Result<Items> {
        match self.value {
            Value::Doc(doc) => Ok(Items::Each(Box::new(Node::parse(doc)?))),
            Value::Array(list) => Ok(Items::List(self.nodes(list)?)),
            other => self.wrong(&format!("an array or an object, not {}", other.kind().name())),
        }
    }

    fn rest(self) -> Result<Rest> {
        match self.value {
            Value::Bool(true) => Ok(Rest::Allowed),
            Value::Bool(false) => Ok(Rest::Forbidden),
            Value::Doc(doc) => Ok(Rest::Valid(Box::new(Node::parse(doc)?))),
            other => self.wrong(&format!(
                "either an object or a boolean, but got a {}",
                other.kind().name()
            )),
        }
    }

    fn properties(self) -> Result<Vec<(Box<str>, Node)>> {
        let read: Result<Vec<(Box<str>, Node)>> = self
            .object()?
            .iter()
            .map(|element| match element.value() {
                Value::Doc(doc) => Ok((Box::from(element.name()), Node::parse(doc)?)),
                _ => bail!(
                    Code::TYPE_MISMATCH,
                    "Nested schema for $jsonSchema property '{}' must be an object",
                    element.name()
                ),
            })
            .collect();
        let mut properties = read?;
        properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(properties)
    }

    fn patterns(self) -> Result<Vec<(Pattern, Node)>> {
        self.object()?
            .iter()
            .map(|element| match element.value() {
                Value::Doc(doc) => {
                    let pattern = Pattern::new(element.name(), "")?;
                    Ok((pattern, Node::parse(doc)?))
                }
                _ => bail!(
                    Code::TYPE_MISMATCH,
                    "$jsonSchema keyword 'patternProperties' has property '{}' which is not an \
                     object",
                    element.name()
                ),
            })
            .collect()
    }

    fn dependencies(self) -> Result<Vec<(Box<str>, Dependency)>> {
        let mut out = Vec::new();
        for element in self.object()? {
            let dependency = match element.value() {
                Value::Doc(doc) => Dependency::Schema(Box::new(Node::parse(doc)?)),
                Value::Array(list) if list.is_empty() => bail!(
                    Code::FAILED_TO_PARSE,
                    "property '{}' in $jsonSchema keyword 'dependencies' cannot be an empty array",
                    element.name()
                ),
                list @ Value::Array(_) => Dependency::Fields(self.names(list)?),
                _ => bail!(
                    Code::TYPE_MISMATCH,
                    "property '{}' in $jsonSchema keyword 'dependencies' must be either an object \
                     or an array",
                    element.name()
                ),
            };
            out.push((Box::from(element.name()), dependency));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn keywords_are_sorted() {
        assert!(super::KEYWORDS.is_sorted_by_key(|row| row.0));
    }
}
