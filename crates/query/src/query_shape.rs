//! The shape of a find, distinct or aggregate for query settings: the command without its values.
//!
//! ```text
//!   {find: "c", filter: {a: 1, b: {$gt: now}}, sort: {b: 1}}
//!   {cmdNs: {db: "test", coll: "c"}, command: "find",
//!    filter: {$and: [{a: {$eq: "?number"}}, {b: {$gt: "?date"}}]}, sort: {b: 1}}
//! ```
//! A value is replaced by its type; paths, operators and names stay, in their order. Arguments that do not change
//! the result (hint, batchSize, comment, maxTimeMS) are not part of the shape. It is computed from the command as
//! it was sent, before any rewriting, so that it can be derived from a log line.
//!
//! The depth of recursion is bounded by the nesting that BSON validation allows.

use nagi_bson::{Array, ArrayWriter, Doc, DocBuf, DocWriter, Element, Value, number};

use crate::plan::is_computed;
use crate::stages::{How, Part, stage_spec};

/// The commands that have a shape, with their parts.
const COMMANDS: &[(&str, &[Part])] =
    &[("aggregate", AGGREGATE), ("distinct", DISTINCT), ("find", FIND)];

/// Returns true if a command has a shape, and so may have query settings.
pub fn has_query_shape(command: &str) -> bool {
    COMMANDS.iter().any(|(name, _)| *name == command)
}

/// The shape; none for a command that has no settings.
pub fn query_shape(db: &str, command: Doc<'_>) -> Option<DocBuf> {
    shape_of(db, command, COMMANDS)
}

/// The shape of a command of which query statistics are kept: those that have settings, and `count`.
pub fn statistics_shape(db: &str, command: Doc<'_>) -> Option<DocBuf> {
    shape_of(db, command, COMMANDS).or_else(|| shape_of(db, command, COUNTED))
}

fn shape_of(db: &str, command: Doc<'_>, commands: &[(&str, &[Part])]) -> Option<DocBuf> {
    let first = command.first()?;
    let name = first.name();
    let coll = match first.value() {
        Value::String(coll) => coll,
        value if value.is_number() && name == "aggregate" => "$cmd.aggregate",
        _ => return None,
    };
    let (_, parts) = commands.iter().find(|(command, _)| *command == name)?;
    Some(DocBuf::build(|out| {
        out.doc("cmdNs", |out| {
            out.put("db", db);
            out.put("coll", coll);
        });
        out.put("command", name);
        for (name, how) in *parts {
            let Some(element) = command.element(name) else { continue };
            match element.value() {
                Value::Null | Value::Undefined => {}
                Value::Doc(doc) if doc.is_empty() && *how != How::Filter => {}
                // A switch that is off counts as missing.
                Value::Bool(false) => {}
                value if *how == How::Switch && !value.is_truthy() => {}
                _ => write(*how, element, out),
            }
        }
    }))
}

const FIND: &[Part] = &[
    ("filter", How::Filter),
    ("projection", How::Projection),
    ("sort", How::Sort),
    ("skip", How::Literal),
    ("limit", How::Literal),
    ("max", How::Expression),
    ("min", How::Expression),
    ("let", How::Expression),
    ("collation", How::Same),
    ("singleBatch", How::Switch),
    ("allowDiskUse", How::Switch),
    ("returnKey", How::Switch),
    ("showRecordId", How::Switch),
    ("tailable", How::Switch),
    ("awaitData", How::Switch),
];

const COUNTED: &[(&str, &[Part])] = &[("count", COUNT)];

const COUNT: &[Part] = &[
    ("query", How::Filter),
    ("collation", How::Same),
    ("limit", How::Literal),
    ("skip", How::Literal),
];

const DISTINCT: &[Part] = &[("key", How::Same), ("query", How::Filter), ("collation", How::Same)];

const AGGREGATE: &[Part] = &[
    ("allowDiskUse", How::Switch),
    ("collation", How::Same),
    ("let", How::Expression),
    ("pipeline", How::Pipeline),
];

fn write(how: How, element: Element<'_>, out: &mut DocWriter<'_>) {
    let (name, value) = (element.name(), element.value());
    match (how, value) {
        (How::Filter, Value::Doc(doc)) => out.doc(name, |out| filter(doc, out)),
        (How::Sort, Value::Doc(doc)) => out.doc(name, |out| sort(doc, out)),
        (How::Projection, Value::Doc(doc)) => out.doc(name, |out| projection(doc, out)),
        (How::Pipeline, Value::Array(stages)) => out.array(name, |out| pipeline(stages, out)),
        (How::Pipelines, Value::Doc(all)) => out.doc(name, |out| {
            all.iter().for_each(|element| write(How::Pipeline, element, out));
        }),
        (How::Fields(parts), Value::Doc(doc)) => out.doc(name, |out| {
            for element in doc {
                let part = parts.iter().find(|(part, _)| *part == element.name());
                write(part.map_or(How::Expression, |(_, how)| *how), element, out);
            }
        }),
        (How::Expression, _) => expression(name, value, out),
        (How::Literal, _) => out.put(name, literal(value).as_str()),
        // A stage's value of an unusual type: `$unionWith: "c"`.
        _ => out.put_element(element),
    }
}

fn pipeline(stages: Array<'_>, out: &mut ArrayWriter<'_>) {
    for stage in stages.iter() {
        let Value::Doc(stage) = stage else { continue };
        out.doc(|out| {
            for element in stage {
                let row = stage_spec(element.name());
                write(row.map_or(How::Expression, |row| row.shape), element, out);
            }
        });
    }
}

/// `{a: 1}` and `{a: 1.0}` are the same order.
fn sort(doc: Doc<'_>, out: &mut DocWriter<'_>) {
    for element in doc {
        match number::as_f64(element.value()) {
            Some(direction) => out.put(element.name(), if direction < 0.0 { -1 } else { 1 }),
            None => out.put_element(element),
        }
    }
}

fn projection(doc: Doc<'_>, out: &mut DocWriter<'_>) {
    for element in doc {
        match element.value() {
            Value::Bool(_) => out.put_element(element),
            value if value.is_number() => out.put(element.name(), value.is_truthy()),
            Value::Doc(inner) if inner.first().is_some_and(|op| op.name() == "$elemMatch") => {
                out.doc(element.name(), |out| {
                    inner.iter().for_each(|op| write(How::Filter, op, out));
                });
            }
            value => expression(element.name(), value, out),
        }
    }
}

/// The conditions of a filter: none, one, or several under `$and`.
fn filter(doc: Doc<'_>, out: &mut DocWriter<'_>) {
    let mut parts = Vec::new();
    for element in doc {
        conditions(element, &mut parts);
    }
    match parts.as_slice() {
        [one] => out.extend(one.as_doc()),
        [] => {}
        several => out.array("$and", |out| {
            several.iter().for_each(|part| out.push_doc(part.as_doc()));
        }),
    }
}

fn conditions(element: Element<'_>, parts: &mut Vec<DocBuf>) {
    let (name, value) = (element.name(), element.value());
    match (name, value) {
        ("$comment", _) => {}
        ("$and" | "$or" | "$nor", Value::Array(all)) => parts.push(DocBuf::build(|out| {
            out.array(name, |out| {
                let all = all.iter().filter_map(|part| part.as_doc());
                all.for_each(|part| out.doc(|out| filter(part, out)));
            });
        })),
        ("$expr", _) => parts.push(DocBuf::build(|out| expression(name, value, out))),
        ("$text", Value::Doc(search)) => parts.push(DocBuf::build(|out| {
            out.doc(name, |out| {
                search.iter().for_each(|option| write(How::Literal, option, out));
            });
        })),
        _ if name.starts_with('$') => {
            parts.push(DocBuf::build(|out| out.put(name, literal(value).as_str())));
        }
        (_, Value::Doc(operators)) if is_operators(operators) => {
            operators_of(operators, &mut |op| {
                parts.push(DocBuf::build(|out| out.doc(name, |out| operator(op, out))));
            });
        }
        (_, Value::Regex(_)) => {
            parts.push(DocBuf::build(|out| out.doc(name, |out| out.put("$regex", "?string"))));
        }
        _ => parts.push(DocBuf::build(|out| {
            out.doc(name, |out| out.put("$eq", literal(value).as_str()));
        })),
    }
}

/// Returns true if the document has operators (`{$gt: 1, ...}`) and is no value.
fn is_operators(doc: Doc<'_>) -> bool {
    let first = doc.first().map_or("", |first| first.name());
    first.starts_with('$') && !matches!(first, "$ref" | "$id" | "$db")
}

/// Visits each operator that is a condition of its own: `$options` belongs to `$regex`.
fn operators_of<'a>(operators: Doc<'a>, visit: &mut dyn FnMut(Element<'a>)) {
    operators.iter().filter(|op| op.name() != "$options").for_each(visit);
}

fn operator(op: Element<'_>, out: &mut DocWriter<'_>) {
    let (name, value) = (op.name(), op.value());
    match (name, value) {
        ("$not", Value::Doc(inner)) => out.doc(name, |out| {
            operators_of(inner, &mut |op| operator(op, out));
        }),
        ("$not", Value::Regex(_)) => out.doc(name, |out| out.put("$regex", "?string")),
        ("$elemMatch", Value::Doc(inner)) if is_operators(inner) => out.doc(name, |out| {
            operators_of(inner, &mut |op| operator(op, out));
        }),
        ("$elemMatch", Value::Doc(inner)) => out.doc(name, |out| filter(inner, out)),
        ("$regex", _) => out.put(name, "?string"),
        // These operands are part of the condition, not values.
        ("$exists", _) => out.put(name, value.is_truthy()),
        ("$type", _) => out.put_element(op),
        _ => out.put(name, literal(value).as_str()),
    }
}

fn expression(name: &str, value: Value<'_>, out: &mut DocWriter<'_>) {
    match value {
        Value::String(path) if path.starts_with('$') => out.put(name, path),
        _ if matches!(name, "$meta") => out.put(name, value),
        _ if name == "$literal" => out.put(name, literal(value).as_str()),
        Value::Doc(doc) => out.doc(name, |out| {
            doc.iter().for_each(|element| expression(element.name(), element.value(), out));
        }),
        Value::Array(array) if array.iter().any(is_computed) => {
            out.array(name, |out| array.iter().for_each(|value| element(value, out)));
        }
        _ => out.put(name, literal(value).as_str()),
    }
}

fn element(value: Value<'_>, out: &mut ArrayWriter<'_>) {
    match value {
        Value::String(path) if path.starts_with('$') => out.push(path),
        Value::Doc(doc) => out.doc(|out| {
            doc.iter().for_each(|element| expression(element.name(), element.value(), out));
        }),
        Value::Array(array) if array.iter().any(is_computed) => {
            out.array(|out| array.iter().for_each(|value| element(value, out)));
        }
        _ => out.push(literal(value).as_str()),
    }
}

/// The placeholder of a value: its type, and for an array the common type of its elements if there is one.
fn literal(value: Value<'_>) -> String {
    let Value::Array(array) = value else { return format!("?{}", kind(value)) };
    let mut kinds = array.iter().map(kind);
    match kinds.next() {
        None => "[]".to_owned(),
        Some(first) if kinds.all(|kind| kind == first) => format!("?array<?{first}>"),
        Some(_) => "?array<>".to_owned(),
    }
}

fn kind(value: Value<'_>) -> &'static str {
    if value.is_number() { "number" } else { value.kind().name() }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn shape(command: &str) -> String {
        let doc = json::parse(&command.replace('\'', "\"")).expect("a document");
        query_shape("d", doc.as_doc()).map_or("none".to_owned(), |s| json::to_relaxed(s.as_doc()))
    }

    #[test]
    fn values_do_not_count() {
        let same = [
            "{find: 'c', filter: {a: 1, b: {$gt: 'x', $lt: 'y'}}, sort: {a: 1}}",
            "{find: 'c', filter: {a: {$eq: 7.5}, b: {$gt: 'z'}, b: {$lt: ''}}, sort: {a: 1.0}}",
            "{find: 'c', filter: {$comment: 'x', a: 1, b: {$gt: 'x', $lt: 'y'}}, sort: {a: 1}, \
             hint: 'a_1', batchSize: 3, projection: {}, singleBatch: false, let: {}}",
        ];
        let first = shape(same[0]);
        assert!(same.iter().all(|command| shape(command) == first), "{first}");
        let others = [
            "{find: 'd', filter: {a: 1, b: {$gt: 'x', $lt: 'y'}}, sort: {a: 1}}",
            "{find: 'c', filter: {a: '', b: {$gt: 'x', $lt: 'y'}}, sort: {a: 1}}",
            "{find: 'c', filter: {a: 1, b: {$gt: 'x', $lt: 'y'}}, sort: {a: -1}}",
            "{find: 'c', filter: {a: 1, b: {$gt: 'x', $lt: 'y'}}, sort: {a: 1}, limit: 1}",
            "{find: 'c', filter: {b: {$gt: 'x', $lt: 'y'}, a: 1}, sort: {a: 1}}",
        ];
        assert!(others.iter().all(|command| shape(command) != first));
    }

    #[test]
    fn pipelines_keep_names_and_paths() {
        let text = shape(
            "{aggregate: 'c', pipeline: [{$match: {a: {$in: [1, 2]}, b: /x/, c: {$not: {$gt: 1}}}}, \
             {$lookup: {from: 'd', as: 'd', let: {x: '$a'}, pipeline: [{$match: {$expr: {$eq: \
             ['$$x', 5]}}}]}}, {$limit: 3}, {$group: {_id: '$a', n: {$sum: {$add: ['$b', 1]}}}}, \
             {$unionWith: 'e'}, {$count: 'n'}]}",
        );
        assert_eq!(
            text,
            concat!(
                r#"{"cmdNs":{"db":"d","coll":"c"},"command":"aggregate","#,
                r#""pipeline":[{"$match":{"$and":[{"a":{"$in":"?array<?number>"}},"#,
                r#"{"b":{"$regex":"?string"}},{"c":{"$not":{"$gt":"?number"}}}]}},"#,
                r#"{"$lookup":{"from":"d","as":"d","let":{"x":"$a"},"#,
                r#""pipeline":[{"$match":{"$expr":{"$eq":["$$x","?number"]}}}]}},"#,
                r#"{"$limit":"?number"},{"$group":{"_id":"$a","n":{"$sum":{"$add":["$b","?number"]}}}},"#,
                r#"{"$unionWith":"e"},{"$count":"n"}]}"#,
            )
        );
        assert_eq!(shape("{count: 'c'}"), "none");
        assert_eq!(shape("{}"), "none");
        let count = json::parse(r#"{"count": "c", "query": {"a": 1}, "limit": 3, "hint": "x"}"#);
        let count = statistics_shape("d", count.expect("a document").as_doc()).expect("a shape");
        assert_eq!(
            json::to_relaxed(count.as_doc()),
            r#"{"cmdNs":{"db":"d","coll":"c"},"command":"count","query":{"a":{"$eq":"?number"}},"limit":"?number"}"#
        );
    }
}
