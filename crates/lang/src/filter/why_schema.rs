//! Explains why a value is not valid under a `$jsonSchema`: each broken rule, keyword by keyword.

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};

use super::schema::first_duplicate;
use super::why::{LISTED_COUNT_MAX, matches, put_considered};
use crate::regex::Pattern;

/// The keywords in the order in which MongoDB lists the broken ones.
const KEYWORDS: [&str; 25] = [
    "pattern",
    "maxLength",
    "minLength",
    "multipleOf",
    "maximum",
    "minimum",
    "minItems",
    "maxItems",
    "uniqueItems",
    "items",
    "additionalItems",
    "encrypt",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "type",
];

/// Writes title, description and `schemaRulesNotSatisfied`.
pub(super) fn explain(schema: Doc<'_>, doc: Doc<'_>, now_ms: i64, out: &mut DocWriter<'_>) {
    let types = part(schema, &["bsonType", "type", "encrypt"]);
    if !valid(types.as_doc(), Value::Doc(doc), now_ms) {
        // No document can satisfy the schema, so no single rule is reported.
        out.doc("specifiedAs", |w| w.put("$jsonSchema", schema));
        out.put("reason", "expression always evaluates to false");
        return;
    }
    put_annotations(schema, out);
    put_list("schemaRulesNotSatisfied", rules(schema, Value::Doc(doc), now_ms), out);
}

fn put_annotations(schema: Doc<'_>, out: &mut DocWriter<'_>) {
    out.put("title", schema.get("title"));
    out.put("description", schema.get("description"));
}

fn put_list(name: &str, docs: Vec<DocBuf>, out: &mut DocWriter<'_>) {
    out.array(name, |list| {
        docs.iter().take(LISTED_COUNT_MAX).for_each(|doc| list.push_doc(doc.as_doc()));
    });
}

/// Returns true if the value is valid under the schema.
fn valid(schema: Doc<'_>, value: Value<'_>, now_ms: i64) -> bool {
    let filter = DocBuf::build(|w| {
        w.doc("$jsonSchema", |w| w.doc("properties", |w| w.put("v", schema)));
    });
    let doc = DocBuf::build(|w| w.put("v", value));
    matches(filter.as_doc(), doc.as_doc(), now_ms)
}

/// A schema that consists of some keywords of another one.
fn part(schema: Doc<'_>, names: &[&str]) -> DocBuf {
    DocBuf::build(|w| names.iter().for_each(|name| w.put(name, schema.get(name))))
}

/// The explanations of the rules of `schema` that `value` breaks.
fn rules(schema: Doc<'_>, value: Value<'_>, now_ms: i64) -> Vec<DocBuf> {
    let mut broken = Vec::new();
    for name in KEYWORDS {
        let name = if name == "type" && schema.get(name).is_missing() { "bsonType" } else { name };
        let operand = schema.get(name);
        if operand.is_missing() {
            continue;
        }
        let companions: &[&str] = match name {
            "minimum" => &["minimum", "exclusiveMinimum"],
            "maximum" => &["maximum", "exclusiveMaximum"],
            "additionalProperties" => &["additionalProperties", "properties", "patternProperties"],
            "additionalItems" => &["additionalItems", "items"],
            _ => &[],
        };
        let mut own = match companions {
            [] => part(schema, &[name]),
            names => part(schema, names),
        };
        if name == "additionalProperties" {
            own = without_subschemas(schema);
        }
        if valid(own.as_doc(), value, now_ms) {
            continue;
        }
        let rule = Rule { name, operand, schema, value, now_ms };
        broken.push(DocBuf::build(|w| {
            w.put("operatorName", name);
            rule.explain(w);
        }));
    }
    broken
}

/// The keywords that determine which properties are additional, without the schemas of the other properties.
fn without_subschemas(schema: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("additionalProperties", schema.get("additionalProperties"));
        for keyword in ["properties", "patternProperties"] {
            if let Value::Doc(named) = schema.get(keyword) {
                w.doc(keyword, |w| named.iter().for_each(|e| w.put(e.name(), Doc::EMPTY)));
            }
        }
    })
}

struct Rule<'r> {
    name: &'r str,
    operand: Value<'r>,
    schema: Doc<'r>,
    value: Value<'r>,
    now_ms: i64,
}

impl Rule<'_> {
    fn explain(&self, out: &mut DocWriter<'_>) {
        match (self.name, self.operand, self.value) {
            ("properties", Value::Doc(named), Value::Doc(doc)) => self.properties(named, doc, out),
            ("patternProperties", Value::Doc(named), Value::Doc(doc)) => {
                self.pattern_properties(named, doc, out);
            }
            ("required", Value::Array(names), Value::Doc(doc)) => {
                self.put_specified(out);
                out.array("missingProperties", |list| missing(names, doc, list));
            }
            ("additionalProperties", _, Value::Doc(doc)) => self.additional(doc, out),
            ("dependencies", Value::Doc(named), Value::Doc(doc)) => {
                self.dependencies(named, doc, out);
            }
            ("items", Value::Doc(schema), Value::Array(items)) => {
                out.put("reason", "At least one item did not match the sub-schema");
                self.first_item(schema, items, 0, out);
            }
            ("items", Value::Array(schemas), Value::Array(items)) => {
                self.items_by_position(schemas, items, out);
            }
            ("additionalItems", _, Value::Array(items)) => self.additional_items(items, out),
            ("encrypt", Value::Doc(encrypt), _) => {
                let encrypted = part(encrypt, &[]);
                let bare = DocBuf::build(|w| w.put("encrypt", &encrypted));
                let is_encrypted = valid(bare.as_doc(), self.value, self.now_ms);
                let reason = ["value was not encrypted", "encrypted value has wrong type"];
                out.put("reason", reason[usize::from(is_encrypted)]);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas), _) => self.several(schemas, out),
            ("not", _, _) => out.put("reason", "child expression matched"),
            _ => self.simple(out),
        }
    }

    fn put_specified(&self, out: &mut DocWriter<'_>) {
        out.doc("specifiedAs", |w| {
            w.put(self.name, self.operand);
            match self.name {
                "minimum" => w.put("exclusiveMinimum", self.schema.get("exclusiveMinimum")),
                "maximum" => w.put("exclusiveMaximum", self.schema.get("exclusiveMaximum")),
                _ => {}
            }
        });
    }

    fn simple(&self, out: &mut DocWriter<'_>) {
        self.put_specified(out);
        out.put(
            "reason",
            match self.name {
                "bsonType" | "type" => "type did not match",
                "enum" => "value was not found in enum",
                "multipleOf" => "considered value is not a multiple of the specified value",
                "minLength" | "maxLength" => "specified string length was not satisfied",
                "pattern" => "regular expression did not match",
                "minProperties" | "maxProperties" => {
                    "specified number of properties was not satisfied"
                }
                "minItems" | "maxItems" => "array did not match specified length",
                "uniqueItems" => "found a duplicate item",
                _ => "comparison failed",
            },
        );
        if let ("minProperties" | "maxProperties", Value::Doc(doc)) = (self.name, self.value) {
            out.put("numberOfProperties", doc.count() as i32);
            return;
        }
        put_considered(self.value, out);
        match (self.name, self.value) {
            ("bsonType" | "type", value) => out.put("consideredType", value.kind().name()),
            ("minItems" | "maxItems", Value::Array(items)) => {
                out.put("numberOfItems", items.count() as i32);
            }
            ("uniqueItems", Value::Array(items)) => {
                out.put("duplicatedValue", first_duplicate(items).unwrap_or(Value::Missing));
            }
            _ => {}
        }
    }

    fn properties(&self, named: Doc<'_>, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        out.array("propertiesNotSatisfied", |list| {
            for property in named {
                let value = doc.get(property.name());
                let Value::Doc(schema) = property.value() else { continue };
                if value.is_missing() || valid(schema, value, self.now_ms) {
                    continue;
                }
                list.doc(|entry| {
                    entry.put("propertyName", property.name());
                    put_annotations(schema, entry);
                    put_list("details", rules(schema, value, self.now_ms), entry);
                });
            }
        });
    }

    fn pattern_properties(&self, named: Doc<'_>, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        out.array("details", |list| {
            for pattern in named {
                let Value::Doc(schema) = pattern.value() else { continue };
                let Ok(regex) = Pattern::new(pattern.name(), "") else { continue };
                for property in doc.iter().filter(|p| regex.is_match(p.name()).unwrap_or(false)) {
                    if valid(schema, property.value(), self.now_ms) {
                        continue;
                    }
                    list.doc(|entry| {
                        entry.put("propertyName", property.name());
                        put_annotations(schema, entry);
                        entry.put("regexMatched", pattern.name());
                        put_list("details", rules(schema, property.value(), self.now_ms), entry);
                    });
                }
            }
        });
    }

    fn additional(&self, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        let others = doc.iter().filter(|property| {
            let named = self.schema.get("properties").as_doc();
            let is_named = named.is_some_and(|named| named.element(property.name()).is_some());
            let patterns = self.schema.get("patternProperties").as_doc().unwrap_or(Doc::EMPTY);
            let is_matched = patterns.iter().any(|pattern| {
                Pattern::new(pattern.name(), "")
                    .is_ok_and(|regex| regex.is_match(property.name()).unwrap_or(false))
            });
            !is_named && !is_matched
        });
        let Value::Doc(schema) = self.operand else {
            self.put_specified(out);
            out.array("additionalProperties", |list| {
                others.take(LISTED_COUNT_MAX).for_each(|property| list.push(property.name()));
            });
            return;
        };
        let failing = others.into_iter().find(|p| !valid(schema, p.value(), self.now_ms));
        if let Some(property) = failing {
            put_annotations(schema, out);
            out.put("reason", "at least one additional property did not match the subschema");
            out.put("failingProperty", property.name());
            put_list("details", rules(schema, property.value(), self.now_ms), out);
        }
    }

    fn dependencies(&self, named: Doc<'_>, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        out.array("failingDependencies", |list| {
            for dependency in named.iter().filter(|d| doc.element(d.name()).is_some()) {
                match dependency.value() {
                    Value::Array(names) => {
                        let gone = |name: &Value<'_>| {
                            name.as_str().is_some_and(|name| doc.element(name).is_none())
                        };
                        if !names.iter().any(|name| gone(&name)) {
                            continue;
                        }
                        list.doc(|entry| {
                            entry.put("conditionalProperty", dependency.name());
                            entry.array("missingProperties", |list| missing(names, doc, list));
                        });
                    }
                    Value::Doc(schema) if !valid(schema, Value::Doc(doc), self.now_ms) => {
                        list.doc(|entry| {
                            entry.put("conditionalProperty", dependency.name());
                            let broken = rules(schema, Value::Doc(doc), self.now_ms);
                            put_list("details", broken, entry);
                        });
                    }
                    _ => {}
                }
            }
        });
    }

    /// Explains the first item from `start` on that is not valid.
    fn first_item(&self, schema: Doc<'_>, items: Array<'_>, start: usize, out: &mut DocWriter<'_>) {
        let mut later = items.iter().enumerate().skip(start);
        if let Some((index, item)) = later.find(|(_, item)| !valid(schema, *item, self.now_ms)) {
            out.put("itemIndex", index as i32);
            put_annotations(schema, out);
            put_list("details", rules(schema, item, self.now_ms), out);
        }
    }

    fn items_by_position(&self, schemas: Array<'_>, items: Array<'_>, out: &mut DocWriter<'_>) {
        out.array("details", |list| {
            for (index, (schema, item)) in schemas.iter().zip(items.iter()).enumerate() {
                let Some(schema) = schema.as_doc() else { continue };
                if valid(schema, item, self.now_ms) {
                    continue;
                }
                list.doc(|entry| {
                    entry.put("itemIndex", index as i32);
                    put_annotations(schema, entry);
                    put_list("details", rules(schema, item, self.now_ms), entry);
                });
            }
        });
    }

    fn additional_items(&self, items: Array<'_>, out: &mut DocWriter<'_>) {
        let named = match self.schema.get("items") {
            Value::Array(schemas) => schemas.count(),
            _ => 0,
        };
        if let Value::Doc(schema) = self.operand {
            out.put("reason", "At least one additional item did not match the sub-schema");
            return self.first_item(schema, items, named, out);
        }
        self.put_specified(out);
        out.put("reason", "found additional items");
        out.array("additionalItems", |list| {
            items.iter().skip(named).take(LISTED_COUNT_MAX).for_each(|item| list.push(item));
        });
    }

    fn several(&self, schemas: Array<'_>, out: &mut DocWriter<'_>) {
        let is_valid = |schema: &Value<'_>| {
            schema.as_doc().is_some_and(|schema| valid(schema, self.value, self.now_ms))
        };
        let matching = schemas.iter().enumerate().filter(|(_, schema)| is_valid(schema));
        let matching: Vec<usize> = matching.map(|(index, _)| index).collect();
        if self.name == "oneOf" && !matching.is_empty() {
            out.put("reason", "more than one subschema matched");
            out.array("matchingSchemaIndexes", |list| {
                matching.iter().for_each(|index| list.push(*index as i32));
            });
            return;
        }
        out.array("schemasNotSatisfied", |list| {
            for (index, schema) in schemas.iter().enumerate() {
                let Some(schema) = schema.as_doc().filter(|_| !matching.contains(&index)) else {
                    continue;
                };
                list.doc(|entry| {
                    entry.put("index", index as i32);
                    put_annotations(schema, entry);
                    put_list("details", rules(schema, self.value, self.now_ms), entry);
                });
            }
        });
    }
}

/// Appends the names that the document does not have.
fn missing(names: Array<'_>, doc: Doc<'_>, list: &mut nagi_bson::ArrayWriter<'_>) {
    for name in names.iter().filter_map(|name| name.as_str()) {
        if doc.element(name).is_none() {
            list.push(name);
        }
    }
}
