//! Stages in the form of explain: expressions are folded, and constants are shown as `{$const: value}`.
//!
//! ```text
//!   {$project: {a: 1, b: {$add: ["$x", {$multiply: [2, 3]}]}}}
//!   {$project: {a: true, b: {$add: ["$x", {$const: 6}]}}}
//! ```
//!
//! It works on the stage as it was written: each part that parses to a constant is replaced by the constant. A part
//! that does not parse on its own, because it uses a variable of its context, is shown part by part. Only explain
//! pays for this.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value, ValueBuf};
use nagi_lang::{
    collation::Collation,
    expr::{Expr, ParseCx},
};

type By = Option<&'static Collation>;

/// The fields of a `$project`.
pub(super) fn projection(name: &str, spec: Value<'_>, by: By, out: &mut DocWriter<'_>) {
    let Value::Doc(fields) = spec else { return out.put(name, spec) };
    out.doc(name, |out| {
        for field in fields {
            match field.value() {
                value if value.is_number() => out.put(field.name(), value.is_truthy()),
                Value::Bool(_) => out.put_element(field),
                value @ Value::Doc(inner) if !is_operator(inner) => {
                    projection(field.name(), value, by, out);
                }
                value => expression(field.name(), value, by, out),
            }
        }
    });
}

/// Expressions by name: the fields of an `$addFields`, or the variables of a `$let`.
pub(super) fn fields(name: &str, spec: Value<'_>, by: By, out: &mut DocWriter<'_>) {
    match spec {
        Value::Doc(fields) => out.doc(name, |out| {
            fields.iter().for_each(|field| expression(field.name(), field.value(), by, out));
        }),
        other => expression(name, other, by, out),
    }
}

/// A `$group`: its key and its accumulators.
pub(super) fn group(spec: Doc<'_>, by: By, out: &mut DocWriter<'_>) {
    out.doc("$group", |out| {
        for field in spec {
            match field.value() {
                _ if field.name() == "_id" => expression("_id", field.value(), by, out),
                Value::Doc(accumulator) => out.doc(field.name(), |out| {
                    accumulator.iter().for_each(|op| accumulate(op.name(), op.value(), by, out));
                }),
                _ => out.put_element(field),
            }
        }
    });
}

fn accumulate(op: &str, argument: Value<'_>, by: By, out: &mut DocWriter<'_>) {
    match argument {
        // Named arguments; `$sortBy` and similar ones are no expressions.
        Value::Doc(named) if !is_operator(named) => out.doc(op, |out| {
            for argument in named {
                match argument.name() {
                    name if TEXTS.contains(&(op, name)) => out.put_element(argument),
                    "sortBy" => out.put_element(argument),
                    name => expression(name, argument.value(), by, out),
                }
            }
        }),
        other => expression(op, other, by, out),
    }
}

fn is_operator(doc: Doc<'_>) -> bool {
    doc.first().is_some_and(|first| first.name().starts_with('$'))
}

/// An expression under a name.
pub(super) fn expression(name: &str, value: Value<'_>, by: By, out: &mut DocWriter<'_>) {
    if let Some(constant) = constant(value, by) {
        return out.doc(name, |out| out.put("$const", constant.value()));
    }
    match value {
        Value::Doc(doc) => out.doc(name, |out| parts(doc, by, out)),
        Value::Array(array) => out.array(name, |out| elements(array, by, out)),
        other => out.put(name, other),
    }
}

/// Arguments that are names, not expressions.
const NAMES: &[(&str, &str)] = &[("$filter", "as"), ("$map", "as"), ("$sortArray", "sortBy")];

/// Arguments that are the text or the language of a function.
const TEXTS: &[(&str, &str)] = &[
    ("$_internalJsEmit", "eval"),
    ("$_internalJsReduce", "eval"),
    ("$accumulator", "accumulate"),
    ("$accumulator", "finalize"),
    ("$accumulator", "init"),
    ("$accumulator", "lang"),
    ("$accumulator", "merge"),
    ("$function", "body"),
    ("$function", "lang"),
];

fn parts(doc: Doc<'_>, by: By, out: &mut DocWriter<'_>) {
    for part in doc {
        let operator = part.name();
        match part.value() {
            _ if matches!(operator, "$meta" | "$literal" | "$const") => out.put_element(part),
            Value::Doc(named) => out.doc(operator, |out| {
                for argument in named {
                    let (name, value) = (argument.name(), argument.value());
                    match (operator, name) {
                        ("$let", "vars") => fields(name, value, by, out),
                        place if NAMES.contains(&place) || TEXTS.contains(&place) => {
                            out.put_element(argument);
                        }
                        _ => expression(name, value, by, out),
                    }
                }
            }),
            other => expression(operator, other, by, out),
        }
    }
}

fn elements(array: Array<'_>, by: By, out: &mut ArrayWriter<'_>) {
    for value in array.iter() {
        if let Some(constant) = constant(value, by) {
            out.doc(|out| out.put("$const", constant.value()));
            continue;
        }
        match value {
            Value::Doc(doc) => out.doc(|out| parts(doc, by, out)),
            Value::Array(array) => out.array(|out| elements(array, by, out)),
            other => out.push(other),
        }
    }
}

/// The value of an expression that does not depend on a document.
fn constant(value: Value<'_>, by: By) -> Option<ValueBuf> {
    if let Value::Doc(doc) = value
        && doc.first().is_some_and(|first| first.name() == "$meta")
    {
        return None;
    }
    let parsed = Expr::parse(value, &mut ParseCx::new().collated(by)).ok()?;
    let found = parsed.as_const().filter(|value| !value.is_missing())?;
    Some(ValueBuf::new(found))
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;

    fn shown(text: &str, write: impl Fn(Doc<'_>, &mut DocWriter<'_>)) -> String {
        let spec = json::parse(text).expect("a document");
        json::to_relaxed(DocBuf::build(|out| write(spec.as_doc(), out)).as_doc())
    }

    #[test]
    fn constants_are_folded() {
        let project = |spec: Doc<'_>, out: &mut DocWriter<'_>| {
            projection("p", Value::Doc(spec), None, out);
        };
        assert_eq!(
            shown(r#"{a: 1, b: {$add: ["$x", {$multiply: [2, 3]}]}, c: {d: 0}, e: "x"}"#, project),
            r#"{"p":{"a":true,"b":{"$add":["$x",{"$const":6}]},"c":{"d":false},"e":{"$const":"x"}}}"#
        );
        assert_eq!(
            shown(
                r#"{a: {$let: {vars: {x: {$add: [1, 1]}}, in: {$add: ["$$x", "$y"]}}}}"#,
                project
            ),
            r#"{"p":{"a":{"$let":{"vars":{"x":{"$const":2}},"in":{"$add":["$$x","$y"]}}}}}"#
        );
        assert_eq!(
            shown(r#"{a: {$filter: {input: "$l", as: "e", cond: {$gt: ["$$e", 1]}}}}"#, project),
            r#"{"p":{"a":{"$filter":{"input":"$l","as":"e","cond":{"$gt":["$$e",{"$const":1}]}}}}}"#
        );
    }

    #[test]
    fn groups_show_their_key_and_arguments() {
        let group = |spec: Doc<'_>, out: &mut DocWriter<'_>| group(spec, None, out);
        assert_eq!(
            shown(r#"{_id: null, n: {$sum: 1}, m: {$max: "$a"}, c: {$count: {}}}"#, group),
            r#"{"$group":{"_id":{"$const":null},"n":{"$sum":{"$const":1}},"m":{"$max":"$a"},"c":{"$count":{}}}}"#
        );
    }
}
