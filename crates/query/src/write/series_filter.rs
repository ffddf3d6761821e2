//! The parts of a filter on metadata that the normal form of filters does not translate: `$jsonSchema` and `$expr`.
//!
//!   {$jsonSchema: {required: ["m"]}}   -->   {$jsonSchema: {required: ["meta"]}}
//!   {$expr: {$gt: ["$m.a", 5]}}        -->   {$expr: {$gt: ["$meta.a", 5]}}

use nagi_bson::{ArrayWriter, Doc, DocBuf, DocWriter, Value, ValueSlot};
use nagi_timeseries::Options;

/// Writes the operand as one on buckets; false if it reads anything else than metadata.
type Translate = fn(&Options, Value<'_>, ValueSlot<'_>) -> bool;

/// The translated operators.
const OPERATORS: [(&str, Translate); 2] = [("$jsonSchema", schema), ("$expr", expression)];

/// Keywords of a schema that do not name fields.
const PLAIN_KEYWORDS: [&str; 4] = ["bsonType", "type", "title", "description"];
/// Keywords with a list of schemas of the same document.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Expressions that may read the document itself, or fields that their operand only names.
const OF_DOCUMENTS: [&str; 5] = ["$getField", "$setField", "$unsetField", "$meta", "$function"];
/// Expressions whose operand is no expression.
const LITERALS: [&str; 2] = ["$literal", "$const"];
/// Variables that are the document.
const DOCUMENTS: [&str; 2] = ["ROOT", "CURRENT"];

/// Divides a filter: the parts at its top that are not translated here, and the others, translated to buckets. A part
/// that reads more than metadata is among the first.
pub(super) fn divided(options: &Options, filter: Doc<'_>) -> (DocBuf, DocBuf) {
    let mut translated: Vec<DocBuf> = Vec::new();
    let rest = DocBuf::build(|out| {
        for part in filter {
            let row = OPERATORS.iter().find(|(name, _)| *name == part.name());
            let own = row.and_then(|(name, translate)| {
                let mut done = false;
                let doc =
                    DocBuf::build(|out| done = translate(options, part.value(), out.slot(name)));
                done.then_some(doc)
            });
            match own {
                Some(own) => translated.push(own),
                None => out.put_element(part),
            }
        }
    });
    let own = DocBuf::build(|out| {
        translated.iter().for_each(|doc| out.extend(doc.as_doc()));
    });
    (rest, own)
}

/// The recursion is bounded by the nesting that validation accepts.
fn schema(options: &Options, value: Value<'_>, slot: ValueSlot<'_>) -> bool {
    let Value::Doc(schema) = value else { return false };
    slot.doc(|out| schema.iter().all(|part| keyword(options, (part.name(), part.value()), out)))
}

fn keyword(options: &Options, (name, value): (&str, Value<'_>), out: &mut DocWriter<'_>) -> bool {
    let is_meta = |name: &str| options.meta_field.as_deref() == Some(name);
    match (name, value) {
        ("required", Value::Array(names)) => {
            out.array(name, |list| names.iter().for_each(|_| list.push("meta")));
            names.count() == 1 && names.iter().all(|name| name.as_str().is_some_and(is_meta))
        }
        ("properties", Value::Doc(fields)) => {
            out.doc(name, |out| fields.iter().for_each(|field| out.put("meta", field.value())));
            fields.count() == 1 && fields.iter().all(|field| is_meta(field.name()))
        }
        ("not", inner) => schema(options, inner, out.slot(name)),
        (_, Value::Array(list)) if LISTS.contains(&name) => {
            out.array(name, |out| list.iter().all(|inner| schema(options, inner, out.slot())))
        }
        _ => {
            out.put(name, value);
            PLAIN_KEYWORDS.contains(&name)
        }
    }
}

/// The recursion is bounded by the nesting that validation accepts.
fn expression(options: &Options, value: Value<'_>, slot: ValueSlot<'_>) -> bool {
    match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(variable) if variable.starts_with('$') => {
                slot.put(value);
                let name = variable[1..].split('.').next().unwrap_or_default();
                !DOCUMENTS.contains(&name)
            }
            Some(path) => {
                let Some(path) = options.meta_path(path) else { return false };
                slot.put(Value::String(&format!("${path}")));
                true
            }
            None => {
                slot.put(value);
                true
            }
        },
        Value::Doc(doc) => slot.doc(|out| {
            doc.iter().all(|part| match part.name() {
                name if OF_DOCUMENTS.contains(&name) || DOCUMENTS.contains(&name) => false,
                name if LITERALS.contains(&name) => {
                    out.put_element(part);
                    true
                }
                name => expression(options, part.value(), out.slot(name)),
            })
        }),
        Value::Array(list) => slot.array(|out: &mut ArrayWriter<'_>| {
            list.iter().all(|value| expression(options, value, out.slot()))
        }),
        other => {
            slot.put(other);
            true
        }
    }
}
